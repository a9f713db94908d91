"""Declarations as plain JSON values, in a form that depends on what was declared alone: what a config hash is
taken of.

Knows no declaration by name. What it can't see into it refuses, because a change of it would not show.
"""

import re
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Any

# A user's file is a module of this name and its own; where the file lies must not show.
USER_MODULE = "slackwater_pipelines_"
_PLACE = re.compile(USER_MODULE + r"[0-9a-f]+_")


class Opaque(TypeError):
    """A value whose contents can't be told."""


def plain(value: Any) -> Any:
    """`value` as JSON: objects become their class name and attributes, functions their module and name.

    Raises:
        Opaque: it holds an object that shows no attributes.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, timedelta):
        return {"microseconds": value // timedelta(microseconds=1)}
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, Enum):
        return _name(type(value)) + "." + value.name
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return {"set": sorted((plain(item) for item in value), key=repr)}
    if isinstance(value, partial):
        return {"partial": plain(value.func), "args": plain(value.args), "keywords": plain(value.keywords)}
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        return _name(value)
    return {
        "class": type(value).__qualname__,
        **{name: plain(item) for name, item in sorted(_attributes(value).items())},
    }


def _attributes(value: Any) -> dict[str, Any]:
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    if not slots and not hasattr(value, "__dict__"):
        raise Opaque(f"{value!r} is a {type(value).__qualname__}, whose contents can't be told")
    return {
        **{name: getattr(value, name) for name in slots if hasattr(value, name)},
        **getattr(value, "__dict__", {}),
    }


def _name(named: Any) -> str:
    """Module and name; ours without `slackwater.`, as configuration hashes have always had them."""
    return f"{_PLACE.sub('', named.__module__).removeprefix('slackwater.')}.{named.__qualname__}"
