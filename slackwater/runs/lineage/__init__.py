"""The lineage as a whole: runs that catch up, moves of its head, its close, upkeep, erasure, and checks of
the tables and of recorded runs against the ledger.
"""
