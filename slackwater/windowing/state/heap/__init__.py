"""State in memory, and nothing kept beyond the process."""
