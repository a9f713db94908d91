"""What a user's file may say: arguments of classes and functions, from their signatures and docstrings."""

import dataclasses
import inspect
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import slackwater
from slackwater import windowing

_UNITS = ("days", "hours", "minutes", "seconds", "milliseconds")
_ARGUMENT = re.compile(r"^ {4}(?P<names>\w+(?:, \w+)*): (?P<text>.*(?:\n {8,}.*)*)", re.M)


def of_class(name: str, *, page: str) -> str:
    """A table of a class's arguments: name, default, meaning. Fails where one is not documented."""
    kind = getattr(slackwater, name)
    meanings = documented_arguments(kind)
    rows = ["| argument | default | |", "|---|---|---|"]
    for field in dataclasses.fields(kind):
        if field.init:
            rows.append(f"| `{field.name}` | {_default(field)} | {_prose(meanings.pop(field.name))} |")
    assert not meanings, f"{name} documents arguments that it does not have: {sorted(meanings)}"
    return "\n".join(rows)


def documented_arguments(kind: type) -> dict[str, str]:
    """Argument → its text in the docstring's section Args."""
    text = inspect.cleandoc(kind.__doc__ or "")
    section = re.search(r"^(?:Args|Attributes):\n(.*?)(?=^\S|\Z)", text, flags=re.M | re.S)
    assert section is not None, f"{kind.__name__} documents no arguments"
    return {
        name: " ".join(match["text"].split())
        for match in _ARGUMENT.finditer(section[1])
        for name in match["names"].split(", ")
    }


def of_functions(module: str, *, page: str) -> str:
    """A table of a module's public functions: signature and the whole docstring."""
    functions = _functions(getattr(slackwater, module), module)
    return "\n".join(["| call | |", "|---|---|", *functions])


def _functions(module: Any, name: str) -> list[str]:
    return [
        f"| `{_call(f'{name}.{function}', member)}` | {_prose(member.__doc__)} |"
        for function, member in vars(module).items()
        if inspect.isfunction(member)
        and member.__module__ == module.__name__
        and not function.startswith("_")
    ]


def methods(name: str, *, page: str) -> str:
    """A table of a class's constructors and of the methods `with_…` that refine it."""
    members = {
        member_name: getattr(member, "__func__", member)
        for member_name, member in vars(getattr(slackwater, name)).items()
        if isinstance(member, classmethod) or member_name.startswith("with_")
    }
    assert members, name
    rows = [
        f"| `.{_call(call, function)}` | {_prose(function.__doc__)} |" for call, function in members.items()
    ]
    return "\n".join(["| call | |", "|---|---|", *rows])


def subclasses(name: str, *, page: str) -> str:
    """A table of the public subclasses of a class of windowing, such as `Trigger`, and the class itself."""
    base = getattr(windowing, name)
    members = [getattr(windowing, member) for member in windowing.__all__]
    kinds = [
        kind for kind in members if inspect.isclass(kind) and issubclass(kind, base) and kind is not base
    ]
    assert kinds, name
    rows = [f"| `{kind.__name__}` | {_constructors(kind)} | {_first_sentence(kind)} |" for kind in kinds]
    base_row = f"| `{name}` | a subclass of yours | {_first_sentence(base)} |"
    return "\n".join(["| class | made by | |", "|---|---|---|", *rows, base_row])


def classes(*names: str, page: str) -> str:
    """A table of classes: name and whole docstring."""
    rows = [f"| `{name}` | {_prose(getattr(windowing, name).__doc__)} |" for name in names]
    return "\n".join(["| class | |", "|---|---|", *rows])


def _constructors(kind: type) -> str:
    """The class methods that make one, or the class itself."""
    makers = {
        name: member.__func__
        for ancestor in reversed(kind.__mro__)
        for name, member in vars(ancestor).items()
        if isinstance(member, classmethod | staticmethod) and not name.startswith("_")
    }
    calls = [f".{_call(name, function)}" for name, function in makers.items()]
    return "<br>".join(f"`{call}`" for call in calls or [_call(kind.__name__, kind)])


def _call(name: str, function: Callable[..., Any]) -> str:
    signature = inspect.signature(function)
    plain = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
        if parameter.name != "cls"
    ]
    return f"{name}{signature.replace(parameters=plain, return_annotation=inspect.Signature.empty)}"


def _default(field: "dataclasses.Field[Any]") -> str:
    if field.default is not dataclasses.MISSING:
        return f"`{_source_text(field.default)}`"
    return (
        "required"
        if field.default_factory is dataclasses.MISSING
        else f"`{_source_text(field.default_factory())}`"
    )


def _source_text(value: object) -> str:
    if not isinstance(value, timedelta):
        return repr(value)
    unit = next((unit for unit in _UNITS if not value % timedelta(**{unit: 1})), "microseconds")
    return f"timedelta({unit}={value // timedelta(**{unit: 1})})" if value else "timedelta(0)"


def _first_sentence(kind: type) -> str:
    return _prose(re.split(r"\n\s*\n|(?<=\.)\s+(?=[A-Z])", inspect.cleandoc(kind.__doc__ or ""))[0])


def _prose(text: str | None) -> str:
    assert text, "nothing is said here"
    text = " ".join(re.split(r"\b(?:Args|Raises|Attributes):\n", text)[0].split()).replace("``", "`")
    return text[0].upper() + text[1:].replace("|", "\\|")
