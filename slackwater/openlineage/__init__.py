"""Run events for OpenLineage, whose own client tells catalogs of data what a verb reads and publishes.

An aid and never a condition: the client's configuration switches it on, the client is not imported
otherwise, and a failure here is one line of warning. OpenLineage calls "lineage" which data came from which;
elsewhere in this package it is the history of runs and branches.
"""
