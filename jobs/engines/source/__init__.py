"""The source of a pipeline: its table at a pinned version, the files of a slice, what has changed since
another version.
"""
