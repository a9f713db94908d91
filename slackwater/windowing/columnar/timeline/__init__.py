"""Watermark timelines: the watermark of a whole slice at once. Keys, windows and firings are unknown here."""
