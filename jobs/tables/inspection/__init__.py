"""Answers users' questions about tables: branches, snapshots and panes as of a run, where two of them differ,
and what to do about a damaged file.
"""
