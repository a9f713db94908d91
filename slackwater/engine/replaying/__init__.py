"""The contract between a run and an engine: what is replayed, what comes back, and what both engines restore,
park and hold in memory.
"""
