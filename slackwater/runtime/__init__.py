"""The environment that a job runs in: Java, the Delta jars, the Spark session and the archive that is shipped
to executors.

Nothing here imports pyspark before a session is asked for, and nothing here knows windows, pipelines or
tables.
"""
