"""Watermark timelines: the watermark of a whole slice at once, by source progress; no keys, no windows."""
