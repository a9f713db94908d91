"""`slackwater bench`: workloads, the contenders that replay them, and what was measured. Nothing of the
product may import it.

Contenders run in processes of their own, so that none warms up, or fills the memory of, another.
"""
