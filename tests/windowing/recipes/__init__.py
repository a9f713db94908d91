"""Recipes for large windows, as the README of windowing shows them: each beside the way that first comes to
mind.
"""
