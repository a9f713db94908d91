"""Arrays of integers, without windows or watermarks: groups, runs, spans, maps, hashes and wide sums."""
