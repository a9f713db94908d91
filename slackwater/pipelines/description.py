"""A pipeline's declaration for people: the arguments other than defaults, which Airflow shows as DAG docs."""

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any

from slackwater.pipelines.pipeline import Pipeline
from slackwater.readable import exact_duration_text, time_text

# Attributes that are computed from arguments, and the name, which every page shows anyhow.
_LEFT_OUT = frozenset({"name", "keys", "derivations", "condition", "output_columns", "side_columns"})
_MS = "_ms"


def description_of(pipeline: Pipeline) -> dict[str, str]:
    """Argument of the pipeline → its value, such as ``tumbling(size=1 h)``, in the order of the arguments."""
    return {
        field.name: _text(field.name, getattr(pipeline, field.name))
        for field in fields(pipeline)
        if field.name not in _LEFT_OUT and not _is_default(field, getattr(pipeline, field.name))
    }


def _is_default(field: Field[Any], value: Any) -> bool:
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return value in (default, {}, (), [], None)


def _text(name: str, value: Any) -> str:
    if isinstance(value, timedelta):
        return exact_duration_text(value)
    if isinstance(value, int) and name.endswith(_MS):
        return exact_duration_text(timedelta(milliseconds=value))
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_text('', item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_text("", item) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        return _call(value)
    return str(getattr(value, "__qualname__", value))


def _call(value: Any) -> str:
    """A declaration as the call that makes it; a class with several kinds is called by its kind."""
    arguments = {
        field.name: getattr(value, field.name)
        for field in fields(value)
        if field.init and not _is_default(field, getattr(value, field.name))
    }
    name = arguments.pop("kind", type(value).__name__)
    texts = (f"{key.removesuffix(_MS)}={_text(key, argument)}" for key, argument in arguments.items())
    return f"{name}({', '.join(texts)})"
