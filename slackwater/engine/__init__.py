"""The ways to run windows on Spark, and their transport.

An engine turns (input files, parent's state files, timeline, key-group ranges) into (rows or files by table,
counts). It commits nothing.
"""
