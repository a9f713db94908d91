"""Contract suites: the same claims hold on every variant of the runtime, that is for each time domain,
operator, order mode and state back end.
"""
