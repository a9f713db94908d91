"""A slice from its arrival range to staged rows: what is read, replayed, judged and written where no reader
looks yet.

Knows nothing of publishing: a staged run is live only when `publishing` has committed it.
"""
