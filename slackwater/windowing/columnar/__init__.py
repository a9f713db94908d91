"""The windowing rules on whole columns: pure functions from arrays to arrays.

Of windowing only this package and the snapshot codec use numpy; nothing here knows an engine, a table or a
file.
"""
