"""A pipeline's tables as views for SQL, and statements of people over them, which read nothing else."""
