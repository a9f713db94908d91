"""One run, step by step: claim, pin, timeline, replay, stage, validate, publish, roll forward.

The only commit point is the ledger row. Everything before it is inert, everything after it can be done again.
"""
