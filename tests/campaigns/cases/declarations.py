"""Pipeline files that can't be loaded, declarations that can't be, and names that mean harm on the command
line.
"""

import shutil
from collections.abc import Iterator
from functools import partial

from tests.campaigns.cases.world import SETTINGS, Case, World, row

ROWS = [row(hour, key, x=int(hour)) for hour, key in ((0, "a"), (1, "b"), (30, "a"))]
FILES = {
    "is empty": b"",
    "has a syntax error": b"own = Pipeline(\n",
    "has a tab and spaces": b"if True:\n\tx = 1\n        y = 2\n",
    "imports what is not there": b"import no_such_module_at_all\n",
    "raises": b"raise ValueError('poison')\n",
    "exits": b"import sys\nsys.exit(3)\n",
    "exits with 0": b"raise SystemExit(0)\n",
    "recurses without end": b"def f(): return f()\nf()\n",
    "is no text": bytes(range(256)),
    "holds a NUL": b"x = 1\x00\n",
    "is of another encoding": "# -*- coding: utf-8 -*-\nx = 'é'\n".encode("latin-1"),
    "nests too deep": b"x = " + b"(" * 500 + b")" * 500 + b"\n",
    "declares none": b"x = 1\n",
    "uses an unknown name": b"own = Pipelin(name='own')\n",
    "raises KeyboardInterrupt": b"raise KeyboardInterrupt\n",
}
# Settings of the pipeline, and a word that the refusal has.
SETTINGS_REFUSED = {
    "name='../x'": "name",
    "name=''": "name",
    "name='Own'": "name",
    "name='sources'": "sources",
    "name='o' * 64": "name",
    "name='own\\n'": "name",
    "name=7": "name",
    "key_by=[]": "key_by",
    "key_by=['k', 'k']": "key_by",
    "key_by='nowhere'": "nowhere",
    "key_by='k; DROP TABLE x'": "DROP TABLE",
    "allowed_lateness=5": "allowed_lateness",
    "allowed_lateness=timedelta(hours=-1)": "allowed_lateness",
    "allowed_lateness=timedelta(microseconds=1)": "allowed_lateness",
    "allowed_lateness=timedelta.max": "allowed_lateness",
    "slice=timedelta(0)": "slice",
    "max_parallelism=0": "max_parallelism",
    "max_parallelism=True": "max_parallelism",
    "max_catch_up=1.5": "max_catch_up",
    "start='yesterday'": "start",
    "start=None": "start",
    "on_error='ignore'": "on_error",
    "where='x >'": "where",
    "where='(SELECT 1)'": "where",
    "where='random() > 0.5'": "where",
    "where='y > 1'": "y",
    "where='x'": "where",
    "derive={'y': 'now()'}": "y",
    "derive={'x': 'x + 1'}": "x",
    "derive={'y': 'y + 1'}": "y",
    "select={}": "select",
    "select={'run_id': agg.count()}": "run_id",
    "select={'window_start': agg.count()}": "window_start",
    "select={'a b': agg.count()}": "a b",
    "select={'n': agg.sum('nowhere')}": "nowhere",
    "select={'n': 5}": "n",
    "select={'n': agg.sum('k')}": "k",
    "select={'n': agg.count(), 'N': agg.count()}": "must differ",
    "select={'k': agg.count()}": "k",
    "source=DeltaSource('', event_time='e', arrival_time='a')": "table",
    "source=DeltaSource('sources/own', event_time='', arrival_time='a')": "event_time",
    "source=DeltaSource('sources/own', event_time='k', arrival_time='a')": "k",
    "source=DeltaSource('sources/../../own', event_time='e', arrival_time='a')": "own",
    "source=DeltaSource('s3://user:secret@bucket/x', event_time='e', arrival_time='a')": "credentials",
    "source=[]": "source",
    "window=EventTimeSessionWindows.with_gap(timedelta(0))": "",
    "window=TumblingEventTimeWindows.of(timedelta(hours=2), timedelta(hours=3))": "",
    "window=None": "window",
    "watermarks=None": "watermarks",
    "distinct_by='x2'": "x2",
    "expect=[expect.between('nowhere', min=1)]": "nowhere",
    "expect=[expect.between('n', min=5, max=1)]": "n",
    "nonsense=1": "nonsense",
}
# Command lines, and a word that the refusal has.
COMMANDS = {
    "an unknown verb": (["rum", "own"], "run"),
    "an unknown pipeline": (["run", "nowhere", "--to", "2013-01-02"], "nowhere"),
    "a pipeline with a path": (["run", "../own", "--to", "2013-01-02"], "../own"),
    "a pipeline of no letters": (["run", "", "--to", "2013-01-02"], ""),
    "a branch with a path": (["state", "fork", "own", "../x"], "../x"),
    "a branch called main": (["state", "fork", "own", "main"], "main"),
    "a branch without a name": (["state", "fork", "own", ""], ""),
    "a branch with a newline": (["state", "fork", "own", "a\nb"], "name"),
    "a branch that is not there": (["publish", "own", "nowhere"], "nowhere"),
    "a run with quotes": (["publish", "own", "'; DROP TABLE runs; --"], "DROP"),
    "a seq that is no number": (["verify", "own", "one"], "one"),
    "a seq that is negative": (["verify", "own", "--", "-1"], "-1"),
    "a seq beyond int64": (["verify", "own", str(1 << 70)], ""),
    "a seq that is not there": (["state", "restore", "own", "99"], "99"),
    "an engine that is not there": (["run", "own", "--to", "2013-01-03", "--engine", "warp"], "warp"),
    "no partitions": (["run", "own", "--to", "2013-01-03", "--partitions", "0"], "partitions"),
    "SQL that writes": (["sql", "own", "DELETE FROM published"], "SELECT"),
    "SQL that attaches": (["sql", "own", "ATTACH '/tmp/x.db'"], ""),
    "SQL that reads a file": (["sql", "own", "SELECT * FROM read_text('/etc/passwd')"], ""),
    "SQL that copies out": (["sql", "own", "COPY published TO '/tmp/campaign-out.csv'"], ""),
    "SQL with two statements": (["sql", "own", "SELECT 1; SELECT 2"], ""),
    "SQL with an error": (["sql", "own", "SELEC 1"], ""),
    "SQL with a column that is not there": (["sql", "own", "SELECT nothing FROM published"], "nothing"),
    "SQL that is a NUL": (["sql", "own", " "], ""),
    "a window that is no time": (["explain", "own", "--key", "a", "--window", "noon"], "noon"),
    "a backfill of nothing": (["backfill", "own", "--from", "2013-01-02", "--to", "2013-01-01"], ""),
    "an arrival before the beginning": (
        ["backfill", "own", "--from", "2001-01-01", "--to", "2001-01-02"],
        "",
    ),
    "a restore without a seq": (["state", "restore", "own"], "SEQ"),
    "an output that is not there": (["runs", "own", "--output", "xml"], "xml"),
}


def cases() -> Iterator[Case]:
    """All of them."""
    for name, content in FILES.items():
        yield Case("pipeline files", f"a file that {name}", "error", partial(_file, content=content))
    for name in ("that is not there", "that is a folder without files", "in a folder that is not there"):
        yield Case("pipeline files", f"a file {name}", "error", partial(_no_file, name=name))
    for settings, word in SETTINGS_REFUSED.items():
        yield Case("declarations", settings, "error", partial(_declared, settings=settings, word=word))
    for name, (command, word) in COMMANDS.items():
        yield Case("command lines", name, "error", partial(_command, command=command, word=word))
    for name in (
        "spaces and quotes 'x'",
        "emoji 👍",
        "a=b",
    ):
        yield Case("names", f"a warehouse called {name}", "right result", partial(_warehouse, name=name))
    yield Case("names", "a warehouse called per%20cent", "error", _percent)


def _file(world: World, content: bytes) -> None:
    world.write(ROWS)
    world.file.write_bytes(content)
    if b"KeyboardInterrupt" in content:  # as if the user had pressed ^C
        done = world.call("run", "own", "--to", "2013-01-02")
        assert done.returncode == 1 and "interrupted; nothing" in done.stderr, done.stderr
        assert world.ledger_rows() == 0
        return
    world.refuses(["run", "own", "--to", "2013-01-02"], "own", codes=(1, 2))


def _no_file(world: World, name: str) -> None:
    world.write(ROWS)
    world.file.unlink()
    if "folder without" in name:
        world.file.mkdir()
    world.refuses(["run", "own", "--to", "2013-01-02"], "own", codes=(1, 2))


def _declared(world: World, settings: str, word: str) -> None:
    world.write(ROWS)
    name, _, value = settings.partition("=")
    world.declare(f"{SETTINGS}, **{{{name!r}: {value}}}" if name != "allowed_lateness" else settings)
    world.refuses(["run", "own", "--to", "2013-01-03"], word, codes=(1, 2))


def _command(world: World, command: list[str], word: str) -> None:
    world.write(ROWS)
    world.runs("2013-01-02")
    world.refuses(command, word, codes=(1, 2))


def _warehouse(world: World, name: str) -> None:
    other = World(world.root / name)
    other.write([*ROWS, row(47, "zz-last")])
    other.runs()
    other.publishes_what_duckdb_counts(ROWS)
    for verb in (["verify", "own", "--tables"], ["maintain", "own"], ["state", "windows", "own"]):
        other.succeeds(*verb)
    other.publishes_what_duckdb_counts(ROWS)


def _percent(world: World) -> None:
    """delta-rs can't open a table below such a folder: it takes %20 for a blank."""
    world.write([*ROWS, row(47, "zz-last")])
    other = World(world.root / "per%20cent")
    other.file.write_text(world.file.read_text())
    shutil.copytree(world.warehouse, other.warehouse, dirs_exist_ok=True)
    other.refuses(["run", "own", "--to", "2013-01-03"], "per%20cent", "percent")
