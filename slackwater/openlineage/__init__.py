"""Run events for OpenLineage: what a verb reads and publishes, told to catalogs of data by OpenLineage's own
client.

An aid and never a condition: the client's configuration switches it on, nothing of the client is imported
otherwise, and what fails here is a line of warning. In OpenLineage's words lineage is which data came from
which; elsewhere it is the history of runs and branches.
"""
