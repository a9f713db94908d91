"""The verbs of the command line and their exit codes, from the click commands themselves."""

import re
from collections.abc import Iterator

import click

from slackwater import errors
from slackwater.cli.command_line import VERBS, slackwater

# Options that most verbs take; the page explains them once.
SHARED_OPTIONS = ("--warehouse", "--pipelines", "--output", "--wide", "--limit", "--log-format")
_SYNOPSIS_WIDTH = 90


def page(*, page: str) -> str:
    """Every verb: what it does, its synopsis, its options."""
    context = click.Context(slackwater, info_name="slackwater")
    return "\n".join(line for verb in VERBS for line in _verb(verb, _command(context, verb), context, "##"))


def exit_codes(*, page: str) -> str:
    """A table of the exit codes, from the error classes."""
    kinds = sorted(errors.SlackwaterError.__subclasses__(), key=lambda kind: kind.exit_code)
    exit_classes = [kind for kind in kinds if kind.__module__ == errors.__name__]
    rows = [f"| {kind.exit_code} | {_cell(_paragraphs(kind.__doc__)[0])} |" for kind in exit_classes]
    return "\n".join(["| code | meaning |", "|---|---|", "| 0 | Done, or nothing to do. |", *rows])


def _command(context: click.Context, verb: str) -> click.Command:
    command = slackwater.get_command(context, verb)
    assert command is not None, verb
    return command


def _verb(name: str, command: click.Command, parent: click.Context, heading: str) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent)
    path = " ".join(context.command_path.split()[1:])
    yield from (f"{heading} {path}", "")
    prose, examples = _prose_and_examples(command.help)
    yield from (line for paragraph in prose for line in (paragraph, ""))
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            subcommand = command.get_command(context, child)
            assert subcommand is not None
            yield from _verb(child, subcommand, context, heading + "#")
        return
    yield from ("```text", *_synopsis(context), "```", "")
    if examples:
        yield from ("```bash", *examples, "```", "")
    options = [option for option in command.params if isinstance(option, click.Option)]
    own_options = [option for option in options if option.opts[0] not in SHARED_OPTIONS]
    if own_options:
        yield from ("| option | |", "|---|---|")
        yield from (_option(option, context) for option in own_options)
        yield ""
    shared_options = [option.opts[0] for option in options if option.opts[0] in SHARED_OPTIONS]
    if shared_options:
        links = ", ".join(f"[`{name}`](#options-of-most-verbs)" for name in shared_options)
        yield from (f"Also {links}.", "")


def _prose_and_examples(text: str | None) -> tuple[list[str], list[str]]:
    """The paragraphs of a help, and the command lines of its examples: a paragraph that click leaves as it is
    begins with a backspace.
    """
    parts = re.split(r"\n\s*\n", (text or "").strip())
    examples_as_they_are = (part.strip() for part in parts if part.strip().startswith("\b"))
    lines = [line.strip() for part in examples_as_they_are for line in part.splitlines()[1:]]
    examples = [re.sub(r"^Examples?: *", "", line) for line in lines]
    return [one for one in _paragraphs(text) if not one.startswith("\b")], examples


def _synopsis(context: click.Context) -> list[str]:
    pieces = [context.command_path]
    for parameter in context.command.params:
        if isinstance(parameter, click.Argument):
            pieces.append(parameter.make_metavar(context))
        elif parameter.opts[0] not in SHARED_OPTIONS:
            text = _flag(parameter, context)
            pieces.append(text if parameter.required else f"[{text}]")
    lines = [""]
    for piece in pieces:
        if len(lines[-1]) + len(piece) >= _SYNOPSIS_WIDTH:
            lines.append("    ")
        lines[-1] += (" " if lines[-1].strip() else "") + piece
    return lines


def _flag(option: click.Parameter, context: click.Context) -> str:
    names = "|".join([option.opts[0], *option.secondary_opts])
    is_flag = isinstance(option, click.Option) and option.is_flag
    return names if is_flag else f"{names} {option.make_metavar(context).strip('[]')}"


def _option(option: click.Option, context: click.Context) -> str:
    help_text = option.get_help_record(context)
    assert help_text is not None, option.name
    # Markdown for Python takes a bar inside of code for no border of a cell.
    return f"| `{_flag(option, context)}` | {_cell(help_text[1])} |"


def _paragraphs(text: str | None) -> list[str]:
    assert text, "a verb or an error without a docstring"
    return [" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text.strip())]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
