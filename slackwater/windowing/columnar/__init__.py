"""The windowing rules on whole columns: pure functions from arrays to arrays. Apart from the snapshot codec
only this package uses numpy; it knows no engine, table or file.
"""
