"""What every variant of the runtime owes: one suite of claims over time domains, operators, order modes and
state back ends.
"""
