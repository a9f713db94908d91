"""Answers users' questions about a lineage from its tables and its declaration, without a JVM: what is open
and why, what was published when, what late rows would have needed, how healthy it is.

Verbs print these answers, pages draw them; nothing here prints, and nothing here writes.
"""
