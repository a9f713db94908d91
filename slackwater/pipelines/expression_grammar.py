"""What an expression may hold: nodes of DuckDB's syntax tree, functions, operators and types that depend on
their row alone. Nothing here knows the types of columns.

Left out on purpose: whatever reads a clock, a setting, a file or other rows; what makes a list out of numbers
alone (``range``), which one row could fill the memory with; and what leaves the order of a list open
(``list_distinct``).
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple, NoReturn

from slackwater.pipelines.expression_database import is_time_zone, time_zones
from slackwater.pipelines.spark_functions import line_for_call, spark_sentence

OPERATORS = frozenset(
    [
        "+",
        "-",
        "*",
        "/",
        "//",
        "%",
        "||",
        "->",
        "->>",
        "~~",
        "!~~",
        "~~*",
        "!~~*",
        "like_escape",
        "not_like_escape",
        "ilike_escape",
        "not_ilike_escape",
    ]
)
FUNCTIONS: Mapping[str, str] = {
    "numbers": "abs ceil ceiling floor greatest isfinite isinf isnan least mod round sign sqrt trunc",
    "text": "concat concat_ws contains ends_with instr left length lower lpad ltrim position "
    "regexp_extract regexp_extract_all regexp_full_match regexp_matches regexp_replace replace reverse "
    "right rpad rtrim split_part starts_with string_split strpos substr substring trim upper",
    "times": "date_diff date_part date_trunc day dayname dayofmonth dayofweek dayofyear epoch epoch_ms "
    "epoch_ns epoch_us hour isodow last_day make_date make_timestamp make_timestamp_ms make_timestamp_ns "
    "minute month monthname quarter second strftime strptime timezone to_timestamp try_strptime week "
    "weekday year",
    "intervals": "to_years to_months to_weeks to_days to_hours to_minutes to_seconds to_milliseconds "
    "to_microseconds",
    "JSON": "from_json from_json_strict json json_array json_array_length json_contains json_exists "
    "json_extract json_extract_path json_extract_path_text json_extract_string json_keys json_merge_patch "
    "json_object json_transform json_transform_strict json_type json_valid json_value to_json",
    "structs": "struct_extract struct_insert struct_pack",
    "lists": "array_contains array_extract array_length array_position array_slice array_to_string "
    "flatten len list_any_value list_avg list_bool_and list_bool_or list_concat list_contains list_count "
    "list_extract list_filter list_first list_has_all list_has_any list_last list_max list_median "
    "list_min list_position list_reverse list_reverse_sort list_slice list_sort list_sum list_transform "
    "list_unique list_value",
    "maps": "cardinality element_at map map_concat map_contains map_entries map_extract map_extract_value "
    "map_from_entries map_keys map_values",
    "bytes": "base64 decode encode from_base64 from_hex hex md5 octet_length sha1 sha256 to_base64 to_hex "
    "unhex",
    "choices": "if nullif",
}
_FUNCTIONS = tuple(name for names in FUNCTIONS.values() for name in names.split())
_CALLABLE_NAMES = frozenset([*_FUNCTIONS, "list_apply"])  # it is written [x + 1 FOR x IN items]
NULL_CHECKS = frozenset(["OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"])
# These take bytes as they are; everything else takes the text whose UTF-8 they are.
READERS_OF_BYTES = NULL_CHECKS.union(
    ["base64", "decode", "hex", "md5", "octet_length", "sha1", "sha256", "to_base64", "to_hex"]
)
_GIVING_BYTES = frozenset(["encode", "from_base64", "from_hex", "unhex"])
# What takes a value out of a list, a map or a struct: who reads the part is who reads the whole.
_EXTRACTIONS = frozenset(
    [
        "ARRAY_EXTRACT",
        "ARRAY_SLICE",
        "STRUCT_EXTRACT",
        "array_extract",
        "array_slice",
        "element_at",
        "list_extract",
        "list_slice",
        "map_extract",
        "map_extract_value",
        "struct_extract",
    ]
)
TYPES = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL"),
    *("VARCHAR", "DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "UUID", "JSON", "STRUCT", "MAP"),
)
_OTHER_NAMES_OF_TYPES = (
    "BOOL INT LONG REAL NUMERIC TEXT STRING DATETIME TIMESTAMPTZ INT1 INT2 INT4 INT8 FLOAT4 FLOAT8 LIST"
)
_CASTS = frozenset((*TYPES, *_OTHER_NAMES_OF_TYPES.split()))
# Parts of a time, for the functions that take the name of one: another name would fail on every row.
PARTS = (
    *("year", "quarter", "month", "week", "day", "hour", "minute", "second", "milliseconds", "microseconds"),
    *("dow", "isodow", "doy", "isoyear", "epoch"),
)
_FUNCTIONS_OF_LAMBDAS = frozenset(["list_filter", "list_transform"])
_FUNCTIONS_OF_PARTS = frozenset(["date_part", "date_trunc", "date_diff"])
_FUNCTIONS_OF_NAMES = frozenset(["struct_insert", "struct_pack"])
_FUNCTIONS_OF_EPOCHS = frozenset(["epoch_ms", "make_timestamp", "make_timestamp_ms", "make_timestamp_ns"])
_NODES = frozenset(["CASE", "CAST", "BETWEEN", "COMPARISON", "CONJUNCTION", "CONSTANT"])
_OPERATOR_NODES = frozenset(
    [
        "OPERATOR_NOT",
        "OPERATOR_IS_NULL",
        "OPERATOR_IS_NOT_NULL",
        "COMPARE_IN",
        "COMPARE_NOT_IN",
        "OPERATOR_COALESCE",
        "OPERATOR_TRY",
        "ARRAY_CONSTRUCTOR",
        "ARRAY_EXTRACT",
        "ARRAY_SLICE",
        "STRUCT_EXTRACT",
    ]
)
# Some of these are written like columns.
CLOCKS = frozenset(
    [
        "current_date",
        "current_time",
        "current_timestamp",
        "localtime",
        "localtimestamp",
        "now",
        "today",
        "get_current_time",
        "get_current_timestamp",
        "transaction_timestamp",
        "random",
        "uuid",
        "gen_random_uuid",
        "uuidv4",
        "uuidv7",
    ]
)
DIFFERS = "differs from run to run; a value comes from its row alone, with columns, literals and functions"


class NotAnExpression(ValueError):
    """A text is no expression. `place` is the position in it; `expected` says what belongs there."""

    def __init__(self, place: int, expected: str) -> None:
        super().__init__(place, expected)
        self.place, self.expected = place, expected


class NodeInTree(NamedTuple):
    """A node with what reads it (the name of a function, or the kind of another node; "" for the root), and
    the subscripts around it: the key of each and the position, in bytes, at which it ends. An extraction, as
    ``items[1]``, is no reader.
    """

    node: Mapping[str, Any]
    reader: str = ""
    subscripts: tuple[tuple[str | int, int], ...] = ()


def nodes_below(place: NodeInTree, parameters: frozenset[str] = frozenset()) -> Iterator[NodeInTree]:
    """Each node of a tree from `place` on, parents before their children. References to parameters of
    lambdas, whose names in lower case are `parameters`, are left out.
    """
    node, reader, subscripts = place
    if node["class"] == "COLUMN_REF" and ascii_lower(node["column_names"][0]) in parameters:
        return
    yield place
    if _is_lambda(node):
        yield from nodes_below(NodeInTree(node["expr"], "LAMBDA"), parameters | _parameters(node["lhs"]))
        return
    kind, children = _kind_of_reader(node, reader), list(_children(node))
    if kind in _EXTRACTIONS and children:
        key = _key(node)
        around = () if key is None else ((key, node["query_location"] + node["query_location_length"]),)
        container = NodeInTree(children.pop(0), reader, (*around, *subscripts) if around else ())
        yield from nodes_below(container, parameters)
    for child in children:
        yield from nodes_below(NodeInTree(child, kind), parameters)


def _children(value: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The nodes right below one, in their order."""
    for below in value.values():
        for item in below if isinstance(below, list) else [below]:
            if isinstance(item, Mapping):
                yield from [item] if "class" in item else _children(item)


def _key(node: Mapping[str, Any]) -> str | int | None:
    """The literal key of ``payload['user']`` or ``items[1]``."""
    if node["type"] not in ("ARRAY_EXTRACT", "STRUCT_EXTRACT"):
        return None
    literal = node["children"][1].get("literal", {})
    if literal.get("kind") == "STRING":
        return str(literal["text"])
    return int(literal["text"]) if literal.get("kind") == "INTEGER" else None


def ascii_lower(name: str) -> str:
    """A name as DuckDB compares it: regardless of the case of ASCII letters, and of no others."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in name)


def check_node(text: str, node: Mapping[str, Any], place: int, reader: str) -> None:
    """Raises NotAnExpression: a node at `place` in the text, read by `reader`, is none of an expression."""
    match node["class"]:
        case "FUNCTION":
            _check_function(text, node, place, reader)
        case "OPERATOR" if node["type"] in _OPERATOR_NODES:
            return
        case "LAMBDA" if _is_lambda(node):
            return
        case "LAMBDA" if reader in _FUNCTIONS_OF_LAMBDAS:
            raise NotAnExpression(place, "a lambda is written lambda x: x + 1")
        case "LAMBDA":
            _check_arrow(node["lhs"], place)
            if not _is_key(node["expr"]):
                raise NotAnExpression(
                    place,
                    "-> takes all that follows for its key; put it in parentheses, e.g. (payload -> 'a') = "
                    "'1'",
                )
        case "COLUMN_REF":
            names = node["column_names"]
            if len(names) == 1 and names[0].lower() in CLOCKS and text[place : place + 1] != '"':
                raise NotAnExpression(place, f"{names[0]} {DIFFERS}")
        case "TYPE":
            _check_type(node, place)
        case kind if kind not in _NODES:
            raise NotAnExpression(
                place,
                "columns, literals, operators, CASE, CAST and functions of one row are expected; no "
                + {"SUBQUERY": "query", "WINDOW": "window function", "STAR": "*"}.get(
                    kind, kind.lower().replace("_", " ")
                ),
            )


def makes_time_of_epoch(node: Mapping[str, Any]) -> bool:
    """Whether a node is a call such as ``epoch_ms(n)``, whose value is a time of UTC without a zone."""
    return (
        node["class"] == "FUNCTION"
        and node["function_name"].lower() in _FUNCTIONS_OF_EPOCHS
        and len(node["arguments"]) == 1
    )


def _is_lambda(node: Mapping[str, Any]) -> bool:
    """Whether a node is a lambda; one of the same class with a single arrow takes a part out of JSON."""
    return node["class"] == "LAMBDA" and node["syntax_type"] == "LAMBDA_KEYWORD"


def _parameters(node: Mapping[str, Any]) -> frozenset[str]:
    """The names of a lambda's parameters, in lower case, from its left side: a column or ``row(x, y)``."""
    if node["class"] == "COLUMN_REF":
        return frozenset([ascii_lower(node["column_names"][0])])
    return frozenset(ascii_lower(argument["expression"]["column_names"][0]) for argument in node["arguments"])


def _kind_of_reader(node: Mapping[str, Any], reader: str) -> str:
    if node["class"] == "FUNCTION":
        return str(node["function_name"]).lower()
    if node["type"] == "OPERATOR_TRY" and reader in READERS_OF_BYTES - NULL_CHECKS:
        return reader
    return "TRY_CAST" if node.get("try_cast") else str(node["type"])


def _check_type(node: Mapping[str, Any], place: int) -> None:
    name = node["type_name"].upper()
    if name in ("BLOB", "BYTEA", "BINARY", "VARBINARY"):
        raise NotAnExpression(place, f"{name} is no type to cast to; encode(…) gives the bytes of a text")
    if name == "ARRAY":
        raise NotAnExpression(place, "a list has no fixed length here; its type is written e.g. BIGINT[]")
    if name not in _CASTS:
        raise NotAnExpression(
            place,
            f"{node['type_name']} is no type to cast to; the types are {', '.join(TYPES)} and lists of them, "
            "e.g. BIGINT[]",
        )


def _check_function(text: str, node: Mapping[str, Any], place: int, reader: str) -> None:
    name = node["function_name"].lower()
    embellishments = [
        *(node["schema"], node["catalog"], node["filter"], node["distinct"], node["export_state"]),
        *node["order_bys"]["orders"],
    ]
    if name not in _FUNCTIONS_OF_NAMES:
        embellishments += [argument["name"] for argument in node["arguments"]]
    is_known = name in (OPERATORS if node["is_operator"] else _CALLABLE_NAMES)
    line = None if node["is_operator"] else line_for_call(name, text, place)
    if line is not None:
        raise NotAnExpression(place, spark_sentence(f"{name}(…)", line))
    if not is_known:
        _refuse_function(name, node["is_operator"], place)
    if any(embellishments):
        raise NotAnExpression(place, f"{name}(…) with its operands alone is expected")
    operands = [argument["expression"] for argument in node["arguments"]]
    if name == "->>":
        _check_arrow(operands[0], place)
    if name in _GIVING_BYTES and reader not in READERS_OF_BYTES:
        raise NotAnExpression(
            place,
            f"{name}(…) gives bytes: decode({name}(…)) is their text; hex, base64, md5, sha1, sha256 and "
            "octet_length take them, too",
        )
    literal = operands[0].get("literal", {}).get("text", "") if operands else ""
    if name in _FUNCTIONS_OF_PARTS and literal.lower() not in PARTS:
        raise NotAnExpression(place, f"{name} takes one of {', '.join(PARTS)} in quotes first")
    if name == "timezone" and literal and not is_time_zone(literal):
        similar = get_close_matches(literal, time_zones(), 1) or ["Europe/Berlin"]
        raise NotAnExpression(place, f"{literal!r} is no time zone; one is written e.g. '{similar[0]}'")


def _refuse_function(name: str, is_operator: bool, place: int) -> NoReturn:
    if is_operator:
        raise NotAnExpression(
            place, "+ - * / % || -> ->> LIKE, comparisons, AND, OR and NOT are the operators; not " + name
        )
    if name in CLOCKS:
        raise NotAnExpression(place, f"{name} {DIFFERS}")
    similar = get_close_matches(name, _FUNCTIONS, 1)
    hint = f" (did you mean {similar[0]}?)" if similar else ""
    raise NotAnExpression(place, f"{name} is none of the functions{hint}; they are {', '.join(_FUNCTIONS)}")


def _check_arrow(left: Mapping[str, Any], place: int) -> None:
    """An arrow takes whatever has been computed before it: ``'x' || payload ->> 'a'`` looks into a text."""
    is_one_operand = left["class"] in ("COLUMN_REF", "CONSTANT", "CAST", "CASE", "LAMBDA") or (
        left["class"] == "FUNCTION" and (not left["is_operator"] or left["function_name"] in ("->", "->>"))
    )
    if not is_one_operand and (left["class"] != "OPERATOR" or left["type"] not in _OPERANDS_OF_ARROWS):
        raise NotAnExpression(
            place,
            "-> and ->> take all before them for the JSON; put them in parentheses, e.g. 'x' || (payload "
            "->> 'a'), or, if all of it is JSON, write json_extract_string('x' || payload, '$.a')",
        )


_OPERANDS_OF_ARROWS = _EXTRACTIONS | {"OPERATOR_TRY", "OPERATOR_COALESCE", "ARRAY_CONSTRUCTOR"}


def _is_key(node: Mapping[str, Any]) -> bool:
    """Whether the right side of an arrow is a key or a path, or several literals with arrows between them."""
    return node["class"] in ("CONSTANT", "COLUMN_REF") or _is_path(node)


def _is_path(node: Mapping[str, Any]) -> bool:
    if node["class"] == "LAMBDA":
        return _is_path(node["lhs"]) and _is_path(node["expr"])
    if node["class"] == "FUNCTION" and node["function_name"] in ("->", "->>"):
        return all(_is_path(argument["expression"]) for argument in node["arguments"])
    return bool(node["class"] == "CONSTANT")
