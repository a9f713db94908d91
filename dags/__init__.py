"""DAGs: they declare what runs when, start jobs by argv and read what those leave behind. No Spark, no Delta, nothing heavy at import."""
