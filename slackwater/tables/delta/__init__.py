"""Tables as Delta stores them: folders, commits, files in the log, Parquet, upkeep. Knows no run."""
