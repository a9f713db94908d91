"""The DuckDB database in memory that parses expressions and computes them. It can read nothing else: no file,
no network, no variable of Python. Functions on JSON and time zones are part of DuckDB's own binary.
"""

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

# `/` of two whole numbers is a whole number, as in Flink, unless asked otherwise; times are UTC; no row is
# lost to a division by zero that gives null or infinity. An optimizer that takes common parts out of TRY
# would make one row's failure the batch's.
SETTINGS = (
    "SET integer_division = true",
    "SET TimeZone = 'UTC'",
    "SET ieee_floating_point_ops = false",
    "SET error_on_division_by_zero = true",
    "SET disabled_optimizers = 'common_subexpressions'",
    "SET errors_as_json = true",
    "SET autoload_known_extensions = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)


def connect(*, makes_fractions: bool = False) -> "duckdb.DuckDBPyConnection":
    """A database in memory that computes expressions; it can read nothing else. `makes_fractions`: `/` of two
    whole numbers is a double.
    """
    import duckdb

    connection = duckdb.connect(config={"threads": 1})  # others would give the process's memory back
    if makes_fractions:
        connection.execute("SET integer_division = false")
    for setting in SETTINGS[makes_fractions:]:
        connection.execute(setting)
    return connection


@cache
def database() -> "duckdb.DuckDBPyConnection":
    """One database for the process. Each cursor of it is a connection: threads may use them side by side."""
    return connect()


@cache
def reserved_words() -> frozenset[str]:
    """The words of SQL that name a column in quotes only, in lower case."""
    with database().cursor() as cursor:
        answer = cursor.execute(
            "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'"
        )
        return frozenset(name for (name,) in answer.fetchall())


@cache
def is_time_zone(name: str) -> bool:
    import duckdb

    with database().cursor() as cursor:
        try:
            cursor.execute("SELECT timezone(?, TIMESTAMP '2000-01-01')", [name]).fetchall()
        except duckdb.Error:
            return False
    return True


@cache
def time_zones() -> tuple[str, ...]:
    with database().cursor() as cursor:
        answer = cursor.execute("SELECT name FROM pg_timezone_names() ORDER BY name")
        return tuple(name for (name,) in answer.fetchall())
