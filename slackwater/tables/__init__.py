"""The Delta tables of a pipeline: their columns, and who may read and write each. Plain Delta, without a JVM.
Knows no windows, engines or order of steps in a run.
"""
