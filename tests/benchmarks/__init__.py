"""Benchmarks: commands that print tables, run by hand. The quick test run only checks that they work and that
all contenders agree.
"""
