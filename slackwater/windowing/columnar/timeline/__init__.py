"""Watermark timelines: the watermark of a whole slice at once, from the progress of its source partitions."""
