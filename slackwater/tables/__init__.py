"""The Delta tables of a pipeline: their columns, and who may read and write each.

Plain Delta, read and written without a JVM. Nothing here knows windows, engines or the order of steps in a
run.
"""
