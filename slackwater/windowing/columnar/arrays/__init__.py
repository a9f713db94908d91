"""Arrays of integers: groups, runs, spans, maps, hashes and wide sums, on whole columns.

No window and no watermark is known here.
"""
