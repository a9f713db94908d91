"""The source of a pipeline: its table at a pinned version, a slice's files, and changes between versions."""
