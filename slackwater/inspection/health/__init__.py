"""Answers whether pipelines are healthy: green, yellow or red, with the reasons. A file for each group of
questions; `report` asks them all.

Reads the ledger's last runs, recent attempts, progress of source partitions and the logs of Delta tables, the
source's among them; never rows of state, panes or late rows.
"""
