"""Campaigns: many trials of one promise, each seeded and resumable, with a report of what held."""
