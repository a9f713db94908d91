"""Restatements: a range replayed on a branch until it meets main again, and the branch made live."""
