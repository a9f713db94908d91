"""Patterns of keys, `visits:{page}:{window_start_ms}`: the names in them. Standard library only."""

import string


def fields_of(key: str) -> set[str]:
    """The names in braces of a key; raises ValueError where a brace is not closed."""
    return {name for _, name, _, _ in string.Formatter().parse(key) if name is not None}
