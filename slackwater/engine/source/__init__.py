"""The source of a pipeline: its table at a pinned version, the files of a slice, and the changes since
another version.
"""
