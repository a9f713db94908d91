"""The tables that say what was run: `runs` (the ledger), `attempts` and `overrides`."""
