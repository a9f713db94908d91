"""The tables that say what was run: `runs`, the ledger, and what stands beside it (attempts, overrides)."""
