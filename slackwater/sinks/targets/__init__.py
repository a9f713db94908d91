"""Opened sinks, a file a kind: each applies batches of corrections where its sink delivers to.

The packages of a target are imported here, when the first sink of its kind is opened.
"""
