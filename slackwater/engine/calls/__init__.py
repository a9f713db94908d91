"""Calls of users' functions: the elements that a firing shows, as rows, and what the function makes of them.

numbers of elements ── element_texts: columns, rows ── function_calls ── result rows, side rows, state
"""
