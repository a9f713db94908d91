"""Everything that knows Spark, Delta and Great Expectations; it starts windowing and is started by argv alone.

Importing this package imports nothing else: a verb that only looks must answer without a JVM.
"""
