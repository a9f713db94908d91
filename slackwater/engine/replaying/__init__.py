"""The contract between a run and an engine: input, outcome, and what both engines restore, park and hold."""
