"""Plans: what a run or a restatement would read, which windows it would touch, and how long it would take;
and the measurements on which such predictions rest.
"""
