"""Files of runs: staged before a reader can see them, found again as a snapshot, removed when dead."""
