"""The canonical form of declarations, from which the config hash is computed: plain JSON values that depend
on nothing but what was declared. An object whose contents it can't read is refused, because a change of it
would leave the hash as it is.
"""

import re
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Any

# A user's file is loaded as a module of this name, a digest of the file's path, and the file's name; the
# digest must not enter a hash.
USER_MODULE = "slackwater_pipelines_"
_DIGEST_OF_PATH = re.compile(USER_MODULE + r"[0-9a-f]+_")
_ONCE_A_MODULE = re.compile(r"^windowing\.assigners\.\w+$")
# Attributes that a class was given later, with their defaults. Where one has its default it is left out:
# lineages from before it keep their hash.
_ATTRIBUTES_ADDED: dict[str, dict[str, Any]] = {
    "windowing.assigners.CalendarEventTimeWindows": {"count": 1, "since": None}
}


class OpaqueValue(TypeError):
    """A value whose contents can't be read: it has no attributes and is of no kind that JSON has."""


def plain_value(value: Any) -> Any:
    """`value` as JSON: objects become their class name and attributes, functions their module and name.
    Raises OpaqueValue: it holds an object that shows no attributes.
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
        return {str(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    if isinstance(value, set | frozenset):
        return {"set": sorted((plain_value(item) for item in value), key=repr)}
    if isinstance(value, partial):
        return {
            "partial": plain_value(value.func),
            "args": plain_value(value.args),
            "keywords": plain_value(value.keywords),
        }
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        return _name(value)
    return {
        "class": type(value).__qualname__,
        **{name: plain_value(item) for name, item in sorted(_attributes(value).items())},
    }


def _attributes(value: Any) -> dict[str, Any]:
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    if not slots and not hasattr(value, "__dict__"):
        raise OpaqueValue(f"{value!r} is a {type(value).__qualname__}, whose contents can't be told")
    attributes = {
        **{name: getattr(value, name) for name in slots if hasattr(value, name)},
        **getattr(value, "__dict__", {}),
    }
    for name, default in _ATTRIBUTES_ADDED.get(_name(type(value)), {}).items():
        if attributes[name] == default:
            del attributes[name]
    return attributes


def _name(declared_code: Any) -> str:
    """Module and name of a class or function. Ours have the names that configuration hashes have always had:
    without `slackwater.`, and with the one module that a package of modules has been.
    """
    module = _DIGEST_OF_PATH.sub("", declared_code.__module__).removeprefix("slackwater.")
    return f"{_ONCE_A_MODULE.sub('windowing.assigners', module)}.{declared_code.__qualname__}"
