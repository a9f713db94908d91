"""The windowing rules on whole columns: pure functions from arrays to arrays.

numpy is at home here and nowhere above; nothing in this package knows an engine, a table or a file.
"""
