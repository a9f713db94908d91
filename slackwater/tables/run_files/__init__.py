"""Files that runs have staged: how they are written, which ones hold a snapshot, which are kept, and how rows
are erased from them.
"""
