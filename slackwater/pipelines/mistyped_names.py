"""Errors for names that a user has mistyped: of an argument, or of a function of `agg` and `expect`. They say
which name was probably meant. Standard library only.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from inspect import isfunction, signature
from typing import Any, TypeVar

from slackwater.errors import did_you_mean
from slackwater.pipelines.errors import PipelineError

T = TypeVar("T")


def refuse_unknown_arguments(declaration: type[T]) -> type[T]:
    """A class of declarations whose constructor raises PipelineError for an argument that it doesn't have."""
    construct: Callable[..., None] = declaration.__init__
    names = [name for name in signature(construct).parameters if name != "self"]

    @wraps(construct)
    def constructor(self: Any, *values: Any, **arguments: Any) -> None:
        for name in arguments:
            if name not in names:
                raise PipelineError(
                    declaration.__name__, f"there is no argument {name}=; {_ways_out(name, names, '{}=')}"
                )
        construct(self, *values, **arguments)

    declaration.__init__ = constructor  # type: ignore[method-assign]
    return declaration


def no_function(module: str, name: str, members: Mapping[str, Any]) -> AttributeError:
    """The error for a function that a module of functions lacks. `members` are the module's attributes."""
    functions = [
        function
        for function, value in members.items()
        if isfunction(value) and value.__module__ == members["__name__"] and not function.startswith("_")
    ]
    text = f"there is no {module}.{name}; {_ways_out(name, functions, f'{module}.{{}}')}"
    return AttributeError(text, name=name, obj=None)


def _ways_out(name: str, names: Iterable[str], written: str) -> str:
    names = list(names)
    suggestion = did_you_mean(name, names, written)
    return suggestion or "it is one of " + ", ".join(written.format(each) for each in names)
