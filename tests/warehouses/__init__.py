"""Warehouses that earlier states of the product wrote, and how they were written."""
