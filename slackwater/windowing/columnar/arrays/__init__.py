"""Arrays of integers: groups, runs, spans, maps, hashes and wide sums, on whole columns; no window, no
watermark.
"""
