"""Rows of the source as whole columns: which of them a replay uses, in which order, under which keys, and
which watermarks they make.
"""
