"""A campaign of attacks: `python -m tests.campaigns.security --work FOLDER [--only TRIAL]`.

Each trial runs the command line in a process of its own, as a user does, and says what did not hold:

- a secret that was planted in the environment or in a URI shows in no output, file or argument of a process;
- a name that leads out of a folder, or a condition that is more than one, is refused and writes nothing;
- a pickle that somebody put into the state is not loaded;
- nothing is written that others may change, and nothing listens but on loopback.

The report is a table and JSON (security.json in the folder).
"""

import argparse
import base64
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil
from deltalake import DeltaTable, write_deltalake
from rich.console import Console
from rich.table import Table

from tests.integration.command import SCRIPT, environment, here
from tests.integration.stored import ROOT

SECRET = "n0body-may-read-this"
PIPELINES = ROOT / "tests" / "integration" / "hourly.py"
DECLARATION = """
from dataclasses import replace
from slackwater import SqlSink, agg, expect
from slackwater.examples import departures as example

departures = example.departures
departures = replace(departures, {changes})
"""
HOSTILE_NAMES = (
    "../out",
    "/tmp/out",
    "a/b",
    "..",
    ".",
    "",
    "a\\b",
    "a\nb",
    "a b",
    "-rf",
    "~",
    "$(touch out)",
    "a;b",
    "a\x00b",
    "x" * 300,
    "%2e%2e%2fout",
    "_delta_log",
)
HOSTILE_CONDITIONS = (
    "1=1; DROP TABLE x",
    "dep_delay > (SELECT max(x) FROM y)",
    "read_text('/etc/passwd') = 'x'",
    "origin = 'a' UNION SELECT 1",
    "java_method('java.lang.Runtime', 'getRuntime') = 'x'",
    "reflect('java.lang.System', 'getenv') = 'x'",
    "getenv('HOME') = 'x'",
    "dep_delay IN (SELECT 1)",
)
LOOPBACK = ("127.", "::1", "::ffff:127.")


@dataclass
class Seen:
    """What a command said, and what processes that it started showed to others.

    Attributes:
        arguments: of those processes, one text each.
        listeners: the addresses at which they listened.
    """

    code: int
    output: str
    arguments: set[str] = field(default_factory=set)
    listeners: set[str] = field(default_factory=set)


class Bench:
    """A folder with a warehouse, a home and a folder of temporary files, in which commands run."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder, self.warehouse = folder, folder / "warehouse"
        self.home, self.temporary = folder / "home", folder / "tmp"
        for place in (self.home, self.temporary):
            place.mkdir()

    def load(self) -> None:
        """The flights of two days."""
        days = ("--from", "2013-01-01", "--to", "2013-01-03")
        if here("examples", "load", "departures", *days, "--warehouse", self.warehouse):
            raise RuntimeError("the flights could not be loaded")

    def run(
        self, *words: str, pipelines: Path = PIPELINES, warehouse: str | None = None, **variables: str
    ) -> Seen:
        """`slackwater WORDS` to its end; its processes are looked at while it runs."""
        command = [str(SCRIPT), *words, "--warehouse", warehouse or str(self.warehouse)]
        command += ["--pipelines", str(pipelines)] if words[0] not in ("doctor",) else []
        with self.started(command, **variables) as (process, seen):
            output, errors = process.communicate(timeout=300)
            seen.code, seen.output = process.returncode, output + errors
        return seen

    @contextmanager
    def started(
        self, command: Sequence[str], **variables: str
    ) -> Iterator[tuple[subprocess.Popen[str], Seen]]:
        """A process that is watched while the block runs."""
        places = {"HOME": str(self.home), "TMPDIR": str(self.temporary), "SLACKWATER_CACHE": _cache()}
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env={**environment(), **places, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        seen, ended = Seen(0, ""), threading.Event()
        watcher = threading.Thread(target=_watch, args=(process.pid, command, seen, ended))
        watcher.start()
        try:
            yield process, seen
        finally:
            ended.set()
            watcher.join()
            process.terminate()
            process.communicate(timeout=60)

    def files(self) -> set[Path]:
        """Everything that stands in the folder."""
        return {path for path in self.folder.rglob("*") if not path.is_symlink() and path.is_file()}

    def with_secret(self) -> list[str]:
        """The files that hold the secret."""
        return [
            str(path.relative_to(self.folder))
            for path in sorted(self.files())
            if SECRET.encode() in path.read_bytes()
        ]

    def pipelines(self, changes: str) -> Path:
        """A file with one pipeline: the departures with changes."""
        file = self.folder / "pipelines.py"
        file.write_text(DECLARATION.format(changes=changes))
        return file


def _cache() -> str:
    return os.environ.get("SLACKWATER_CACHE") or str(Path.home() / ".cache" / "slackwater")


def _watch(pid: int, command: Sequence[str], seen: Seen, ended: threading.Event) -> None:
    own = list(command)
    while not ended.wait(0.05):
        try:
            family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        for process in family:
            try:
                if (words := process.cmdline())[-len(own) :] != own:
                    seen.arguments.add(" ".join(words))
                seen.listeners |= {
                    connection.laddr.ip
                    for connection in process.net_connections("inet")
                    if connection.status == psutil.CONN_LISTEN
                }
            except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
                continue


def leaks(bench: Bench, seen: Seen) -> list[str]:
    """Where the secret shows."""
    problems = [f"the secret stands in {file}" for file in bench.with_secret()]
    if SECRET in seen.output:
        problems.append(f"the secret is printed: {_around(seen.output)}")
    problems += [
        f"the secret is an argument: {_around(words)}" for words in seen.arguments if SECRET in words
    ]
    return problems


def _around(text: str) -> str:
    at = text.index(SECRET)
    return text[max(0, at - 100) : at + len(SECRET) + 20]


def secret_of_a_store(bench: Bench) -> list[str]:
    """The credentials of an object store that does not answer."""
    variables = {
        "AWS_ACCESS_KEY_ID": "tester",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_SESSION_TOKEN": SECRET,
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
    }
    problems = []
    for words in (("run", "hourly", "--to", "2013-01-02"), ("state", "windows", "hourly"), ("health",)):
        seen = bench.run(*words, warehouse="s3://lake/warehouse", **variables)
        problems += leaks(bench, seen)
        if seen.code == 0:
            problems.append(f"{words}: an object store that does not answer goes unnoticed")
    return problems


def secret_of_a_local_run(bench: Bench) -> list[str]:
    """Credentials in the environment of a run, of upkeep and of what looks at its tables."""
    bench.load()
    problems = []
    for words in (
        ("run", "hourly", "--to", "2013-01-03"),
        ("runs", "hourly"),
        ("verify", "hourly", "--tables"),
        ("maintain", "hourly"),
        ("doctor",),
    ):
        seen = bench.run(*words, AWS_SECRET_ACCESS_KEY=SECRET, AWS_SESSION_TOKEN=SECRET)
        problems += leaks(bench, seen)
        if seen.code:
            problems.append(f"{words} ended with {seen.code}: {seen.output[-300:]}")
    return problems


def secret_of_spark(bench: Bench) -> list[str]:
    """A password among Spark's properties, in a run whose tasks Spark starts."""
    bench.load()
    conf = json.dumps({"spark.hadoop.fs.s3a.secret.key": SECRET})
    words = ("run", "hourly", "--to", "2013-01-02", "--engine", "operator")
    seen = bench.run(*words, SLACKWATER_SPARK_CONF=conf, SLACKWATER_MASTER="local[1]")
    if seen.code or not any("java" in arguments for arguments in seen.arguments):
        return [f"Spark did not run: {seen.output[-500:]}"]
    return leaks(bench, seen)


def secret_in_a_uri(bench: Bench) -> list[str]:
    """URIs with a user and a password: refused, and not repeated."""
    uri = f"s3://user:{SECRET}@lake/warehouse"
    problems = []
    for words, where in (
        (("run", "hourly", "--to", "2013-01-02"), uri),
        (("run", "hourly", "--to", "2013-01-02", "--manifest", f"{uri}/manifest.json"), None),
        (("plan", "hourly"), uri),
        (("health",), uri),
    ):
        seen = bench.run(*words, warehouse=where)
        problems += leaks(bench, Seen(seen.code, seen.output))
        if seen.code != 2:
            problems.append(f"{words}: not refused, it ended with {seen.code}: {seen.output[-300:]}")
    file = bench.pipelines(f"source=replace(departures.source, table={uri!r})")
    seen = bench.run("plan", "departures", pipelines=file)
    file.unlink()
    problems += leaks(bench, Seen(seen.code, seen.output))
    return problems + ([] if seen.code == 2 else [f"a source was not refused: {seen.output[-300:]}"])


def secret_of_a_sink(bench: Bench) -> list[str]:
    """The password of a database that does not answer."""
    bench.load()
    file = bench.pipelines('sinks=[SqlSink("results", url="env:RESULTS_URL", table="departures")]')
    seen = bench.run(
        "run",
        "departures",
        "--to",
        "2013-01-02",
        pipelines=file,
        RESULTS_URL=f"postgresql://user:{SECRET}@127.0.0.1:9/results",
    )
    problems = leaks(bench, seen)
    if seen.code or "sink results" not in seen.output:
        problems.append(f"no warning of the sink; it ended with {seen.code}: {seen.output[-500:]}")
    return problems


def secret_of_a_catalog(bench: Bench) -> list[str]:
    """The key of a data catalog that does not answer: the run goes on."""
    bench.load()
    variables = {"OPENLINEAGE_URL": "http://127.0.0.1:9", "OPENLINEAGE_API_KEY": SECRET}
    seen = bench.run("run", "hourly", "--to", "2013-01-02", **variables)
    return leaks(bench, seen) + (
        [] if seen.code == 0 else [f"it ended with {seen.code}: {seen.output[-500:]}"]
    )


def names_of_pipelines(bench: Bench) -> list[str]:
    """Pipelines and side outputs whose names lead elsewhere."""
    bench.load()
    problems = []
    for name in HOSTILE_NAMES:
        for changes in (f"name={name!r}", f"side_outputs={{{name!r}: 'n long'}}"):
            file = bench.pipelines(changes)
            problems += _refusal(bench, f"{changes:.60}", ("plan", "departures"), file)
    return problems


def names_of_branches(bench: Bench) -> list[str]:
    """Branches and runs whose names lead elsewhere."""
    bench.load()
    problems = []
    if (seen := bench.run("run", "hourly", "--to", "2013-01-02")).code:
        return [seen.output]
    for name in HOSTILE_NAMES:
        if "\x00" in name:  # no argument of a process holds it
            continue
        for words in (("state", "fork", "hourly"), ("publish", "hourly")):
            problems += _refusal(bench, f"{words} {name!r:.60}", (*words, "--", name), PIPELINES)
    return problems


def _refusal(bench: Bench, what: str, words: Sequence[str], pipelines: Path) -> list[str]:
    """What is wrong with how something hostile was refused."""
    before = bench.files()
    options = ["--warehouse", str(bench.warehouse), "--pipelines", str(pipelines)]
    at = words.index("--") if "--" in words else len(words)
    command = [str(SCRIPT), *words[:at], *options, *words[at:]]
    with bench.started(command) as (process, _):
        output, errors = process.communicate(timeout=120)
    problems = []
    if process.returncode != 2:
        problems.append(
            f"{what}: not refused, it ended with {process.returncode}: {(output + errors)[-200:]}"
        )
    if "Traceback" in errors:
        problems.append(f"{what}: {errors[-300:]}")
    outside = {path for path in bench.files() - before if bench.warehouse not in path.parents}
    if outside - {pipelines} and any("__pycache__" not in str(path) for path in outside - {pipelines}):
        problems.append(f"{what}: it wrote {sorted(map(str, outside))}")
    return problems


def conditions(bench: Bench) -> list[str]:
    """Conditions that are more than conditions."""
    bench.load()
    problems = []
    for condition in HOSTILE_CONDITIONS:
        for changes in (f"where={condition!r}", f"select={{'n': agg.count(where={condition!r})}}, expect=[]"):
            file = bench.pipelines(changes)
            problems += _refusal(bench, changes, ("plan", "departures"), file)
    return problems


class _Trap:
    """A pickle of it makes a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.touch, (self._path,)


def pickles(bench: Bench) -> list[str]:
    """A pickle in the contents of every parked window, in each of the forms that contents have."""
    bench.load()
    if (seen := bench.run("run", "hourly", "--to", "2013-01-02")).code:
        return [seen.output]
    trap = bench.folder / "loaded"
    poison = base64.b64encode(pickle.dumps(_Trap(trap))).decode()
    problems = []
    uri = str(bench.warehouse / "hourly" / "window_state")
    rows = DeltaTable(uri).to_pyarrow_table()
    texts = [
        name for name in rows.column_names if str(rows.schema.field(name).type) in ("string", "large_string")
    ]
    for form in (poison, json.dumps({"pickle": poison}), json.dumps(["pickle", poison])):
        for name in set(texts) - {"run_id", "origin", "kind"}:
            changed = rows.set_column(
                rows.column_names.index(name), rows.schema.field(name), [[form] * rows.num_rows]
            )
            write_deltalake(uri, changed, mode="overwrite")
            for words in (("run", "hourly", "--to", "2013-01-03"), ("state", "windows", "hourly")):
                seen = bench.run(*words)
                if "Traceback" in seen.output:
                    problems.append(f"{name}, {words[0]}: {seen.output[-300:]}")
    return problems + (["a pickle was loaded"] if trap.exists() else [])


def permissions(bench: Bench) -> list[str]:
    """Nothing that a run leaves may be changed by others, and temporary folders are the user's alone."""
    bench.load()
    wide: set[str] = set()
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.02):
            for path in bench.temporary.glob("*"):
                try:
                    if path.is_dir() and path.stat().st_mode & 0o022:
                        wide.add(path.name)
                except FileNotFoundError:
                    continue

    watcher = threading.Thread(target=look)
    watcher.start()
    words = ("run", "hourly", "--to", "2013-01-03", "--engine", "operator")
    seen = bench.run(*words, SLACKWATER_MASTER="local[1]", SLACKWATER_STATE_MEMORY_MB="1")
    ended.set()
    watcher.join()
    problems = [f"others may write into the temporary folder {name}" for name in sorted(wide)]
    problems += [] if seen.code == 0 else [seen.output[-500:]]
    return problems + [
        f"others may write {path.relative_to(bench.folder)}"
        for path in sorted(bench.folder.rglob("*"))
        if path.stat().st_mode & 0o002
    ]


def listeners(bench: Bench) -> list[str]:
    """What a run on Spark and the pages listen at."""
    bench.load()
    words = ("run", "hourly", "--to", "2013-01-02", "--engine", "operator")
    seen = bench.run(*words, SLACKWATER_MASTER="local[1]")
    problems = [] if seen.code == 0 and seen.listeners else [f"Spark did not run: {seen.output[-500:]}"]
    command = [str(SCRIPT), "serve", "--port", "0", "--warehouse", str(bench.warehouse)]
    with bench.started(command) as (_, pages):
        for _ in range(600):
            if pages.listeners:
                break
            threading.Event().wait(0.1)
    problems += [] if pages.listeners else ["the pages did not begin to listen"]
    return problems + [
        f"a process listens at {address}"
        for address in sorted(seen.listeners | pages.listeners)
        if not address.startswith(LOOPBACK)
    ]


TRIALS: dict[str, Callable[[Bench], list[str]]] = {
    trial.__name__.replace("_", " "): trial
    for trial in (
        secret_of_a_store,
        secret_of_a_local_run,
        secret_of_spark,
        secret_in_a_uri,
        secret_of_a_sink,
        secret_of_a_catalog,
        names_of_pipelines,
        names_of_branches,
        conditions,
        pickles,
        permissions,
        listeners,
    )
}


@dataclass
class Verdict:
    """What became of a trial; `problems` is empty where everything held."""

    trial: str
    problems: list[str]


def run(work: Path, names: Sequence[str] = ()) -> Iterator[Verdict]:
    """Do the trials, or some of them, each in a folder of its own below `work`, which is new."""
    for name, trial in TRIALS.items():
        if not names or name in names:
            yield Verdict(name, trial(Bench(work / name.replace(" ", "-"))))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.security", description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="a folder that does not exist")
    parser.add_argument("--only", action="append", default=[], choices=list(TRIALS), metavar="TRIAL")
    options = parser.parse_args()
    verdicts = list(run(options.work.absolute(), options.only))
    (options.work / "security.json").write_text(
        json.dumps([asdict(verdict) for verdict in verdicts], indent=2)
    )
    table = Table("trial", "held", "problems")
    for verdict in verdicts:
        table.add_row(verdict.trial, "no" if verdict.problems else "yes", "\n".join(verdict.problems))
    Console().print(table)
    sys.exit(any(verdict.problems for verdict in verdicts))


if __name__ == "__main__":
    main()
