"""From staged runs to what readers see: the commit in the ledger, the corrections, and `published` rolled
forward from them.
"""
