"""Opened sinks, a file per kind, that apply batches of corrections; each imports its packages when opened."""
