"""How rows and results move between tasks: two operations, the same on Spark and within one process."""
