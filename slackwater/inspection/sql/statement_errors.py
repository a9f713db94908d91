"""Turns DuckDB's message about a statement into a sentence, its hint, and the line with carets under the
place. Text in, text out.
"""

import json
import re

from slackwater.errors import UsageError

MEMORY_LIMIT = "200MB"
_LINES = 6
_KINDS_OF_FILES = frozenset({"IO Error", "Invalid Input Error"})


class NotAStatement(UsageError):
    """A text that is no statement that can be asked here, or one that has failed. Facts: is_of_a_file
    (whether a file may be to blame).
    """


def has_place(message: str) -> bool:
    return message.endswith("}")


def error_of_statement(message: str, sql: str, offset: int = 0) -> NotAStatement:
    """The error for DuckDB's `message` about `sql`, before which DuckDB has read `offset` characters."""
    kind, _, details_text = message.partition(": ")
    if kind == "Out of Memory Error":
        return NotAStatement(
            f"the statement needs more memory than it may have ({MEMORY_LIMIT}). Ask for less: a condition, "
            "a LIMIT, or fewer columns."
        )
    is_of_a_file = kind in _KINDS_OF_FILES
    try:
        details, _ = json.JSONDecoder().raw_decode(details_text)
    except ValueError:
        return NotAStatement(text_with_place(details_text or message, sql, None), is_of_a_file=is_of_a_file)
    text = text_with_place(details["exception_message"], sql, details.get("location"), offset)
    return NotAStatement(text, is_of_a_file=is_of_a_file)


def text_with_place(message: str, sql: str, location: str | None, offset: int = 0) -> str:
    """DuckDB's message for people, with the line that it is about and carets under the place. `location` is
    ``[position, length]`` in bytes, or None; `sql` begins at the position `offset`.
    """
    sentence, *hints = _without_noise(message)
    text = "\n".join([sentence, *hints])
    place = re.match(r"\[(\d+),\s*(\d+)", location or "")
    if place is None or int(place[1]) < offset:
        return text
    first = int(place[1]) - offset
    before = sql.encode()[:first].decode(errors="ignore")
    length = len(sql.encode()[first:][: int(place[2])].decode(errors="ignore").partition("\n")[0])
    start = before.rfind("\n") + 1
    line = sql[start:].partition("\n")[0]
    return f"{text}\n\n  {line}\n  {' ' * (len(before) - start)}{'^' * max(1, length)}"


def _without_noise(message: str) -> list[str]:
    """The lines of a message, without advice on DuckDB's settings, which can't be changed here, and without
    all but the first candidates.
    """
    message = message.partition("\n\nLINE ")[0].replace("\t", "  ")
    lines = [line.rstrip() for line in message.splitlines() if line.strip()]
    return [*lines[:_LINES], *(["  …"] if len(lines) > _LINES else [])] or ["the statement failed"]
