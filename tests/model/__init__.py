"""The second source for end-to-end tests: the windowed replay written again, as naively as it can be.

Standard library only; must not import slackwater, or a shared mistake would agree with itself.
"""
