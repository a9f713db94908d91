"""Times before year 1 and after year 9999 in results, in late and unusable rows, and dates as keys, through
verbs and pages. What is expected of a time is its number of microseconds since 1970, of a date that of days.
"""

from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from slackwater.pages.app import create_app
from tests.cli.own_source import SCHEMA, TIME, OwnPipeline, every_hour, moment
from tests.pages.page_reader import PageReader

AFTER, BEFORE = 253_402_300_800_000_000 + 7, -62_135_596_800_000_000 - 3
SELECT = 'select={"n": agg.count(), "until": agg.max("u"), "since": agg.min("u")}'
PAGES = (
    "/own",
    "/own/runs/1",
    "/own/late",
    "/own/state/windows",
    "/own/state/late",
    "/own/state/late?key=a",
    "/own/state/quarantine",
    "/own/history?key=a",
    "/own/history?run=1",
    "/own/window?key=a&start=2013-01-01T02:00",
    "/own/window?key=a&start=2013-01-01T22:00&elements=true",
    "/own/sql?statement=FROM+published",
    "/own/state/late/file.csv",
    "/-/diff?a=own&b=own",
)
VERBS = (
    ("late", "list", "own"),
    ("late", "report", "own"),
    ("late", "advise", "own"),
    ("late", "redrive", "own", "--key", "a", "--reason", "x", "--dry-run"),
    ("quarantine", "list", "own"),
    ("history", "own", "--key", "a"),
    ("history", "own", "--run", "1"),
    ("explain", "own", "--key", "a", "--window", "2013-01-01T02:00"),
    ("explain", "own", "--key", "a", "--window", "2013-01-01T22:00", "--elements"),
    ("state", "windows", "own"),
    ("runs", "own", "1"),
    ("sql", "own", "FROM published"),
    ("diff", "own", "own"),
    ("verify", "own", "1"),
)


@pytest.mark.slow
def test_every_verb_shows_times_that_python_cannot_express(
    tmp_path: Path, without_spark: None, capsys: pytest.CaptureFixture[str]
) -> None:
    own = OwnPipeline(tmp_path, pa.schema([*SCHEMA, ("u", TIME)]))
    own.declare(SELECT)
    rows = [*every_hour(0, 24), *({"e": moment(2), "a": moment(20), "k": key, "x": 0} for key in ("a", None))]
    times = pa.array([(AFTER, BEFORE)[row["x"] % 2] for row in rows], pa.int64()).cast(TIME)
    table = pa.Table.from_pylist(rows, schema=SCHEMA).append_column("u", times)
    own.append_table(table)
    assert own("run", "own", "--to", "2013-01-02") == 0
    for verb in VERBS:
        for form in ("table", "json"):
            assert own(*verb, "--output", form) == 0, (verb, form, capsys.readouterr())

    pages = PageReader(create_app(str(own.warehouse), str(own.file)))
    for path in PAGES:
        assert pages.get(path).status == 200, (path, pages.get(path).text)
    for path in ("/own/state/late", "/own/state/late/file.csv", "/own/history?key=a", PAGES[9], PAGES[11]):
        assert f"{AFTER} µs since 1970" in pages.get(path).source, path

    assert own.json(capsys, "late", "list", "own")[0]["u"] == f"{AFTER} µs since 1970"
    [first, *_] = own.json(capsys, "sql", "own", "SELECT until, since FROM published")
    assert first == {"until": f"{AFTER} µs since 1970", "since": f"{BEFORE} µs since 1970"}
    capsys.readouterr()
    assert own("explain", "own", "--key", "a", "--window", "2013-01-01T02:00", "--output", "json") == 0
    assert f'"until": "{AFTER} µs since 1970"' in capsys.readouterr().out.encode().decode("unicode_escape")


@pytest.mark.slow
@pytest.mark.parametrize("day", [2_932_897, -719_163, 106_751_991])  # years 10000, 0 and 294247
def test_every_verb_and_page_takes_a_date_that_python_cannot_express_for_a_key(
    tmp_path: Path, without_spark: None, capsys: pytest.CaptureFixture[str], day: int
) -> None:
    own = OwnPipeline(tmp_path, pa.schema([*SCHEMA, ("u", TIME)]))
    own.declare('key_by="day", derive={"day": "CAST(u AS DATE)"}')
    days = [0, day]
    rows = [*every_hour(0, 24), *every_hour(0, 24), {"e": moment(2), "a": moment(20), "k": "a", "x": 0}]
    of_days = pa.array([days[number // 24 % 2] for number in range(48)] + [day], pa.int64())
    times = pc.multiply(of_days, 86_400_000_000).cast(TIME)
    own.append_table(pa.Table.from_pylist(rows, schema=SCHEMA).append_column("u", times))
    assert own("run", "own", "--to", "2013-01-02") == 0
    key = f"{day} days since 1970"
    for verb in VERBS:
        if "--key" in verb:
            arguments = [key if argument == "a" else argument for argument in verb]
        else:
            arguments = list(verb)
        for form in ("table", "json"):
            assert own(*arguments, "--output", form) == 0, (verb, form, capsys.readouterr())
    windows = {row["window_start"][11:13]: row for row in own.json(capsys, "history", "own", "--key", key)}
    assert len(windows) == 11 and [row["key"] for row in windows.values()] == [{"day": key}] * 11
    open_windows = own.json(capsys, "state", "windows", "own", "--key", key)
    assert [(row["day"], row["elements"]) for row in open_windows] == [(key, 2), (key, 2)]
    [late_row] = own.json(capsys, "late", "redrive", "own", "--key", key, "--reason", "x", "--dry-run")
    assert late_row["key"] == {"day": key}

    pages = PageReader(create_app(str(own.warehouse), str(own.file)))
    for path in PAGES:
        answer = pages.get(path.replace("key=a", f"key={quote(key)}"))
        assert answer.status == 200, (path, answer.text)
        assert key in answer.source or "key=a" not in path, path
