"""Tables for people: what fits, what is left out, cut or wrapped. The expected lines are written by hand."""

from datetime import UTC, datetime, timedelta

import click
import pytest

from slackwater.cli import health, runs
from slackwater.cli.table_layout import facts, shorten, table, wrap, wrap_sentence
from slackwater.inspection.answer_tables import Column
from tests.tables.ledger.ledger_rows import run_row

SIX = datetime(2013, 1, 10, 18, tzinfo=UTC)
ROWS = [
    {"origin": "EWR", "start": SIX, "elements": 1500, "late_ms": 5_400_000, "run_id": "r-1"},
    {"origin": "JFK", "start": SIX + timedelta(hours=1), "elements": 7, "late_ms": None, "run_id": "r-2"},
]
COLUMNS = [
    Column("origin", "key"),
    Column("start"),
    Column("elements"),
    Column("late_ms", "duration"),
    Column("run_id", is_wide=True),
]


def test_a_table_has_a_line_for_each_row_and_numbers_on_the_right() -> None:
    layout = table(ROWS, COLUMNS, None, is_wide=False)
    assert layout.lines == [
        "origin  start             elements        late",
        "EWR     2013-01-10 18:00     1,500  1 h 30 min",
        "JFK     2013-01-10 19:00         7           –",
    ]
    assert layout.headings_without_room == []


def test_a_column_without_room_is_left_out_and_named() -> None:
    layout = table(ROWS, COLUMNS, 35, is_wide=False)
    assert layout.lines[0] == "origin  start             elements"
    assert layout.headings_without_room == ["late"]


def test_all_columns_that_have_no_room_become_a_record_for_each_row() -> None:
    assert table(ROWS[:1], COLUMNS, 60, is_wide=True).lines == [
        "origin  start             elements        late  run id",
        "EWR     2013-01-10 18:00     1,500  1 h 30 min  r-1",
    ]
    assert table(ROWS, COLUMNS, 40, is_wide=True).lines == [
        "origin    EWR",
        "start     2013-01-10 18:00",
        "elements  1,500",
        "late      1 h 30 min",
        "run id    r-1",
        "",
        "origin    JFK",
        "start     2013-01-10 19:00",
        "elements  7",
        "late      –",
        "run id    r-2",
    ]


def test_all_times_of_a_table_have_one_format() -> None:
    rows = [{"at": SIX, "until": SIX + timedelta(seconds=5)}, {"at": None, "until": SIX}]
    assert table(rows, [Column("at"), Column("until")], 80, is_wide=False).lines == [
        "at                   until",
        "2013-01-10 18:00:00  2013-01-10 18:00:05",
        "–                    2013-01-10 18:00:00",
    ]
    rows = [{"at": SIX, "watermark": SIX - timedelta(milliseconds=1)}]
    columns = [Column("at"), Column("watermark")]
    assert table(rows, columns, 80, is_wide=False).lines[1] == "2013-01-10 18:00  2013-01-10 18:00"
    assert (
        table(rows, columns, 80, is_wide=True).lines[1] == "2013-01-10 18:00:00.000  2013-01-10 17:59:59.999"
    )


def test_a_hostile_key_takes_one_line_and_moves_no_cursor() -> None:
    keys = ["\x1b[31mred", "a\nb", "<script>", "x" * 300, "\u202egnp.exe", "[red]", ""]
    rows = [{"key": key, "n": 1} for key in keys]
    lines = table(rows, [Column("key", "key"), Column("n")], 40, is_wide=False).lines
    assert lines == [
        "key                                    n",
        r"\x1b[31mred                            1",
        r"a\nb                                   1",
        "<script>                               1",
        "x" * 36 + "…  1",
        r"\u202egnp.exe                          1",
        "[red]                                  1",
        '""                                     1',
    ]


def test_headings_wrap_between_words_and_texts_within_their_column() -> None:
    assert table([{"rows_read": 5}], [Column("rows_read")], 34, is_wide=False).lines[0] == "rows read"
    rows = [{"rows_read": 5, "why": "one two three four five six seven eight nine ten"}]
    assert table(rows, [Column("rows_read"), Column("why", "text")], 34, is_wide=False).lines == [
        "rows",
        "read  why",
        "   5  one two three four five six",
        "      seven eight nine ten",
    ]


def test_the_colour_of_a_cell_takes_no_room() -> None:
    columns = [Column("health", "text", colours={"red": "red"}), Column("n")]
    rows = [{"health": "red", "n": 1}, {"health": "grey", "n": 20}]
    lines = table(rows, columns, 40, is_wide=False).lines
    assert lines[1] == "\x1b[31mred   \x1b[0m   1"
    assert [click.unstyle(line) for line in lines] == ["health   n", "red      1", "grey    20"]


def test_reasons_of_health_have_room_beside_a_long_name_on_a_narrow_terminal() -> None:
    row = {
        "pipeline": "arrivals_of_trips_by_borough_and_vehicle_with_corrections",
        "health": "red",
        "reasons_text": "4 corrections for the sink feed have waited for 2 hours",
        "head": datetime(2013, 1, 4, tzinfo=UTC),
        "watermark_lag_ms": 7_200_000,
    }
    layout = table([row], [column for column in health.COLUMNS if not column.is_wide], 80, is_wide=False)
    assert "reasons" in layout.lines[0] and "health" in layout.lines[0]
    assert max(len(click.unstyle(line)) for line in layout.lines) <= 80 and len(layout.lines) <= 4


def test_a_long_branch_is_cut_before_the_verdict_of_its_run_is_left_out() -> None:
    ledger_row = run_row("r-7", branch="restate-2013-01-02-of-the-whole-second-week")
    columns = runs.log_columns([ledger_row])
    cells = {
        "seq": 7,
        "kind": "run",
        "branch": ledger_row.branch,
        "slice_start": datetime(2013, 1, 2, tzinfo=UTC),
        "slice_end": datetime(2013, 1, 3, tzinfo=UTC),
        **{"verdict": "passed", "rows_read": 842, "late": 2, "live": ledger_row.branch},
    }
    row = {column.name: cells.get(column.name, 0) for column in columns if column.kind != "range"} | cells
    layout = table([row], [column for column in columns if not column.is_optional], 80, is_wide=False)
    assert {"verdict", "rows", "late"} <= set(layout.lines[0].split())
    assert "…" in layout.lines[1]


def test_an_optional_column_is_there_only_where_it_says_something() -> None:
    columns = [Column("n"), Column("emitted", is_optional=True)]
    assert table([{"n": 1, "emitted": 0}], columns, 80, is_wide=True).lines[0] == "n"
    assert table([{"n": 1, "emitted": 3}], columns, 80, is_wide=True).lines[0] == "n  emitted"


def test_a_range_is_one_column_of_two() -> None:
    rows = [
        {"slice_start": SIX, "slice_end": SIX + timedelta(hours=2)},
        {"slice_start": None, "slice_end": None},
    ]
    assert table(rows, [Column("slice", "range")], 80, is_wide=False).lines == [
        "slice",
        "2013-01-10 18:00–20:00",
        "–",
    ]


def test_wide_characters_count_twice() -> None:
    assert table([{"k": "東京", "n": 1}], [Column("k", "key"), Column("n")], 80, is_wide=False).lines == [
        "k     n",
        "東京  1",
    ]
    assert shorten("東京都", 5) == "東京…"


def test_facts_wrap_beside_their_names() -> None:
    assert facts([("name", "departures"), ("why", "one two three four five six")], 26) == [
        "name  departures",
        "why   one two three four",
        "      five six",
    ]


@pytest.mark.parametrize(
    ("text", "lines"),
    [("a b c", ["a b", "c"]), ("abcdef", ["abc", "def"]), ("ab cdef g", ["ab", "cde", "f g"]), ("", [""])],
)
def test_a_word_longer_than_a_line_is_broken(text: str, lines: list[str]) -> None:
    assert wrap(text, 3) == lines


def test_a_sentence_breaks_between_words_and_never_within_a_command() -> None:
    sentence = "p: take them in with `slackwater backfill p --from A --to B`. It takes long."
    assert wrap_sentence(sentence, 40) == [
        "p: take them in with",
        "`slackwater backfill p --from A --to B`.",
        "It takes long.",
    ]
    assert wrap_sentence(sentence, None) == [sentence]
    assert wrap_sentence("  note: one two", 10) == ["  note:", "one two"]
