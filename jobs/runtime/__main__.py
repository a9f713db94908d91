"""`python -m jobs.runtime`: what set-up runs last."""
