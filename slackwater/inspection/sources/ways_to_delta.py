"""How the rows of what no pipeline can read get into a Delta table, which one can: the lines to type."""

from slackwater.inspection.sources.source_kinds import SourceFormat, SourcePlace


def ways_to_delta(place: SourcePlace, warehouse: str, table: str) -> list[str]:
    """A sentence, and the lines that write the rows into a Delta table."""
    kind = place.format
    sentence = (
        f"A pipeline can't read {kind.value} yet. Write the rows into a Delta table, which this file reads:"
    )
    target = f"{warehouse}/{table}"
    if kind not in (SourceFormat.JSON, SourceFormat.CSV):
        line = (
            f'spark.read.format("{kind.value.lower()}").load("{place.uri}")'
            f'.write.format("delta").mode("append").save("{target}")'
        )
        return [sentence, line]
    reader = "read_json" if kind is SourceFormat.JSON else "read_csv"
    paths = f"{place.uri}/{place.files[0].path}" if place.is_file else f"{place.uri}/{_pattern(place)}"
    return [
        sentence,
        "import duckdb",
        "from deltalake import write_deltalake",
        f"rows = duckdb.sql(\"FROM {reader}('{paths}')\").to_arrow_table()",
        f'write_deltalake("{target}", rows, mode="append")',
    ]


def _pattern(place: SourcePlace) -> str:
    """A pattern of the paths of the files, by the ending of the first."""
    path = place.files[0].path
    ending = path.rpartition("/")[2].partition(".")[2]
    return f"**/*.{ending}" if "/" in path else f"*.{ending}"
