"""Sessions on whole columns: the kernel, and what it is made of.

Sessions are intervals that touch (`intervals`). Chains that hold a tardy element (`chains`) are walked
one by one (`walk`) or many abreast (`rounds`); `paths` are the lists of rows that grow meanwhile.
"""
