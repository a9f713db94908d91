"""Rows of the source on whole columns: which are used, in which order, under which keys, and the watermarks
that they make.
"""
