"""Functions of Spark SQL that DuckDB lacks, or takes with other arguments, and how the same is written here.

Knows texts alone: the arguments are put into the line as they stand in the user's expression.
"""

import re
from collections.abc import Callable, Mapping, Sequence

# How a call with so many arguments is written: {0} is its first argument, {1:plain} what `_FORMS` makes of
# the second; {0:time 1} is the time that the first one holds as the pattern in the second says.
_CASTS = {
    **{"bigint": "BIGINT", "boolean": "BOOLEAN", "double": "DOUBLE", "float": "FLOAT", "int": "INTEGER"},
    **{"string": "VARCHAR", "timestamp": "TIMESTAMP"},
}
LINES: Mapping[str, Mapping[int, str]] = {
    **{name: {1: f"CAST({{0}} AS {kind})"} for name, kind in _CASTS.items()},
    "add_months": {2: "{0:operand} + to_months({1})"},
    "array": {1: "[{0}]", 2: "[{0}, {1}]", 3: "[{0}, {1}, {2}]"},
    "array_join": {2: "array_to_string({0}, {1})"},
    "array_size": {1: "len({0})"},
    "char_length": {1: "length({0})"},
    "character_length": {1: "length({0})"},
    "date_add": {2: "{0:operand} + to_days({1})"},
    "date_diff": {2: "date_diff('day', {1}, {0})"},
    "date_format": {2: "strftime({0}, {1:time format})"},
    "date_sub": {2: "{0:operand} - to_days({1})"},
    "dateadd": {2: "{0:operand} + to_days({1})"},
    "datediff": {2: "date_diff('day', {1}, {0})"},
    "explode": {1: "{0:items}"},
    "explode_outer": {1: "{0:items}"},
    "filter": {2: "list_filter({0}, {1:lambda})"},
    "from_json": {2: "{1:fields of 0}"},
    "from_unixtime": {1: "to_timestamp({0})", 2: "strftime(to_timestamp({0}), {1:time format})"},
    "from_utc_timestamp": {2: "{0:operand} AT TIME ZONE {1}"},
    "get_json_object": {2: "{0:member 1}"},
    "inline": {1: "{0:items}"},
    "isnotnull": {1: "{0:operand} IS NOT NULL"},
    "isnull": {1: "{0:operand} IS NULL"},
    "json_object_keys": {1: "json_keys({0})"},
    "lcase": {1: "lower({0})"},
    "locate": {2: "strpos({1}, {0})"},
    "nvl": {2: "COALESCE({0}, {1})"},
    "nvl2": {3: "CASE WHEN {0:operand} IS NOT NULL THEN {1} ELSE {2} END"},
    "posexplode": {1: "{0:items}"},
    "regexp": {2: "regexp_matches({0}, {1})"},
    "regexp_like": {2: "regexp_matches({0}, {1})"},
    "rlike": {2: "regexp_matches({0}, {1})"},
    "sha": {1: "sha1({0})"},
    "sha2": {2: "sha256({0})"},
    "size": {1: "len({0})"},
    "sort_array": {1: "list_sort({0})"},
    "split": {2: "string_split({0}, {1:plain}), whose first part is [1], not [0]"},
    "substring_index": {3: "split_part({0}, {1}, {2})"},
    "timestamp_micros": {1: "make_timestamp({0})"},
    "timestamp_millis": {1: "epoch_ms({0})"},
    "timestamp_seconds": {1: "to_timestamp({0})"},
    "to_date": {1: "CAST({0} AS DATE)", 2: "CAST({0:time 1} AS DATE)"},
    "to_timestamp": {2: "{0:time 1}"},
    "to_utc_timestamp": {2: "{0:operand} AT TIME ZONE {1}, of a time without a zone, such as strptime gives"},
    "transform": {2: "list_transform({0}, {1:lambda})"},
    "trunc": {2: "date_trunc({1:unit}, {0})"},
    "try_to_timestamp": {1: "TRY_CAST({0} AS TIMESTAMP)", 2: "try_strptime({0}, {1:time format})"},
    "ucase": {1: "upper({0})"},
    "unbase64": {1: "from_base64({0})"},
    "unix_micros": {1: "epoch_us({0})"},
    "unix_millis": {1: "epoch_ms({0})"},
    "unix_seconds": {1: "CAST(epoch({0}) AS BIGINT)"},
    "unix_timestamp": {1: "CAST(epoch({0}) AS BIGINT)", 2: "CAST(epoch({0:time 1}) AS BIGINT)"},
    "weekofyear": {1: "week({0})"},
}
# The arguments of those that DuckDB takes with others, and of those whose line suits no others.
_ARGUMENTS_OF_SPARK = {
    **{"from_json": r".*, '\s*\w+[\s:]+\w.*'", "trunc": r".*, '\w+'"},
    **{"sha2": ".*, (0|256)", "substring_index": ".*, 1"},
}
_LETTERS = {
    **{"yyyy": "%Y", "yy": "%y", "y": "%Y", "MMMM": "%B", "MMM": "%b", "MM": "%m", "M": "%-m"},
    **{"dd": "%d", "d": "%-d", "DDD": "%j", "EEEE": "%A", "EEE": "%a", "E": "%a", "HH": "%H", "H": "%-H"},
    **{"hh": "%I", "h": "%-I", "mm": "%M", "m": "%-M", "ss": "%S", "s": "%-S", "a": "%p"},
    **{"SSS": "%g", "SSSSSS": "%f", "XXX": "%z", "XX": "%z", "X": "%z", "xxx": "%z", "xx": "%z", "Z": "%z"},
    **{"VV": "%Z", "z": "%Z"},
}
_UNITS = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
    **dict.fromkeys(("month", "mon", "mm"), "month"),
    **dict.fromkeys(("day", "dd"), "day"),
}
_TYPES = {"string": "VARCHAR", "int": "INTEGER", "long": "BIGINT", "short": "SMALLINT", "byte": "TINYINT"}
_TOKENS_OF_ARGUMENTS = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|[(\[{,)\]}]")
_ANY_FORMAT = "'%Y-%m-%d %H:%M:%S'"


def line_for_call(name: str, text: str, place: int) -> str | None:
    """How the call of `name` at `place` in an expression is written here; None where it is no function of
    Spark's, or one that DuckDB takes as it stands.
    """
    arguments = _arguments_at(text, place + len(name))
    template = None if arguments is None else LINES.get(name, {}).get(len(arguments))
    if arguments is None or template is None:
        return None
    pattern = _ARGUMENTS_OF_SPARK.get(name)
    if pattern and re.fullmatch(pattern, ", ".join(arguments), re.DOTALL) is None:
        return None
    return line_for(template, arguments)


def line_for(template: str, arguments: Sequence[str]) -> str:
    def fill(match: re.Match[str]) -> str:
        argument, form = arguments[int(match[1])], match[2]
        name, _, other = form.rpartition(" ") if form[-1:].isdigit() else (form, "", "")
        return _FORMS[name](argument, arguments[int(other)] if other else "")

    return re.sub(r"\{(\d):?([^}]*)\}", fill, template)


def use_before(text: str, place: int) -> tuple[int, str] | None:
    """(the place of what is written otherwise in Spark, a sentence with the line to write) for the last such
    use before a syntax error, which it may have caused.
    """
    operators = [
        (word.start(2), word[2], line_for(LINES["rlike"][2], [word[1], word[3]]))
        for word in re.finditer(r"([\w.\"]+)\s+(rlike|regexp)\s+('(?:[^']|'')*')", text, re.IGNORECASE)
    ]
    calls = [
        (call.start(), f"{call[1]}(…)", line_for_call(call[1].lower(), text, call.start()))
        for call in re.finditer(r"(\w+)\s*\(", text)
    ]
    uses = [use for use in sorted([*operators, *calls]) if use[0] <= place and use[2] is not None]
    return (uses[-1][0], spark_sentence(*uses[-1][1:])) if uses else None


def spark_sentence(use: str, line: str | None) -> str:
    return f"{use} is Spark's; here write {line}"


def _arguments_at(text: str, place: int) -> list[str] | None:
    """The texts of the arguments in the parentheses that begin at `place`; None where they do not end."""
    opening = re.compile(r"\s*\(").match(text, place)
    if opening is None:
        return None
    arguments, depth, start = list[str](), 1, opening.end()
    for token in _TOKENS_OF_ARGUMENTS.finditer(text, start):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(token[0], 0)
        if depth == 0 or (depth == 1 and token[0] == ","):
            arguments.append(text[start : token.start()].strip())
            start = token.end()
        if depth == 0:
            return [argument for argument in arguments if argument]
    return None


def _literal_text(argument: str) -> str | None:
    """The text of a literal; None where the argument is none."""
    match = re.fullmatch(r"'((?:[^']|'')*)'", argument)
    return None if match is None else match[1].replace("''", "'")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _format_of(argument: str, _: str = "") -> str:
    """A pattern of Spark's as a format of `strptime`; some format where it can't be one."""
    pattern = _literal_text(argument)
    if pattern is None:
        return _ANY_FORMAT
    pieces = []
    for piece in re.finditer(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']", pattern):
        if piece[2] is None:
            pieces.append(piece[0] if piece[1] is None else piece[1] or "'")
        elif piece[0] in _LETTERS:
            pieces.append(_LETTERS[piece[0]])
        else:
            return _ANY_FORMAT
    return _quoted("".join(pieces))


def _time_by(argument: str, pattern: str) -> str:
    form = _format_of(pattern)
    if form.startswith("'%Y-%m-%d") and form.endswith("%z'"):
        return f"CAST({argument} AS TIMESTAMP WITH TIME ZONE)"
    return f"strptime({argument}, {form})"


def _is_operand(argument: str) -> bool:
    """Whether an argument is a name, a literal, a part or a call, so that any operator takes it as it is."""
    return re.fullmatch(r"[\w.]+|\"[^\"]+\"|'[^']*'|\w+\([^()]*\)", argument) is not None


def _operand(argument: str, _: str) -> str:
    return argument if _is_operand(argument) else f"({argument})"


def _member(argument: str, path: str) -> str:
    """The text of a member of JSON; an arrow takes all before it for the JSON."""
    return f"{argument} ->> {path}" if _is_operand(argument) else f"json_extract_string({argument}, {path})"


def _lambda(argument: str, _: str) -> str:
    match = re.fullmatch(r"(?:\((.*?)\)|(\w+))\s*->\s*(.*)", argument, re.DOTALL)
    return "lambda x: x + 1" if match is None else f"lambda {match[1] or match[2]}: {match[3]}"


def _line_for_field(schema: str, argument: str) -> str:
    """The line for a field of JSON, by the first one of Spark's schema."""
    match = re.match(r"\s*(?:struct<)?\s*(\w+)[\s:]+(\w+)", _literal_text(schema) or "", re.IGNORECASE)
    if match is None:
        return _member(argument, "'$.field'")
    kind = _TYPES.get(match[2].lower(), match[2].upper())
    field = _member(argument, f"'$.{match[1]}'")
    return f"{field if kind == 'VARCHAR' else f'CAST({field} AS {kind})'} for its field {match[1]}"


_FORMS: Mapping[str, Callable[[str, str], str]] = {
    "": lambda argument, _: argument,
    "operand": _operand,
    "member": _member,
    "time format": _format_of,
    "time": _time_by,
    "plain": lambda argument, _: re.sub(r"\\+(?=\W)", "", argument),
    "lambda": _lambda,
    "unit": lambda argument, _: _quoted(_UNITS.get((_literal_text(argument) or "").lower(), "month")),
    "fields of": _line_for_field,
    "items": lambda argument, _: (
        f"explode={argument!r} in the source: each item becomes a row, which has it in the column item"
    ),
}
