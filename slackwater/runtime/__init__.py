"""The environment of a job: Java, the Delta jars, the Spark session, and the archive for executors.

Nothing here imports pyspark before a session is asked for, or knows windows, pipelines or tables.
"""
