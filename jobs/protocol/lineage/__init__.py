"""The lineage as a whole: runs one after another, moves of its head, upkeep, erasure, and checks that it
still says what was run.
"""
