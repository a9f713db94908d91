"""Breakages of the product, each a function that builds one mistake into this process. A campaign that runs
under one must report it (`tests.campaigns.planted`); drivers take one by
`tests.integration.driver.Plan.planted`. The product's own files stay as they are.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from slackwater.engine.replaying import results, snapshot_rows
from slackwater.runs import opened_pipeline
from slackwater.runs.publishing import roll_forward
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.runs.staging import run
from slackwater.tables.delta import parquet, stored_files, table_handles
from slackwater.tables.delta.folder import Folder
from slackwater.tables.ledger.writer import LedgerWriter
from slackwater.tables.run_files import staging

Function = Callable[..., Any]


def _replace(owner: Any, name: str, make: Callable[[Function], Function]) -> None:
    """Put what `make` makes of a function in its place."""
    original = getattr(owner, name)
    setattr(owner, name, functools.wraps(original)(make(original)))


def _nothing(original: Function) -> Function:
    """A check that checks nothing."""
    return lambda *arguments, **named: None


def _commit_skipped(table: str) -> None:
    def make(original: Function) -> Function:
        def commit_files(folder: Folder, *arguments: Any, **named: Any) -> None:
            if folder.name != table:
                original(folder, *arguments, **named)

        return commit_files

    _replace(Folder, "commit_files", make)


def _staged_rows_changed(table: str, change: Callable[[pa.Table], pa.Table]) -> None:
    def make(original: Function) -> Function:
        def write_staged(uri: str, run_id: str, part: str, rows: pa.Table) -> Any:
            is_of_table = uri.rstrip("/").endswith(f"/{table}")
            return original(uri, run_id, part, change(rows) if is_of_table else rows)

        return write_staged

    for module in (run, results):
        _replace(module, "write_staged", make)


def _checksums_not_compared() -> None:
    """Files are read as they are, whatever their pages, footers and names say of them."""

    def bytes_of(files: pafs.FileSystem, path: str) -> pa.Buffer:
        with files.open_input_file(path) as data:
            return data.read_buffer()

    @contextmanager
    def opened(
        uri: str, files: pafs.FileSystem, path: str, *_: Any, **options: Any
    ) -> Iterator[pq.ParquetFile]:
        with files.open_input_file(path) as data:
            yield pq.ParquetFile(data, **options)

    _replace(stored_files, "checked_bytes", lambda original: bytes_of)
    for name in ("check_contents", "check_footer"):
        _replace(stored_files, name, lambda original: lambda files, path: files.get_file_info(path).size)
    _replace(
        stored_files, "file_format", lambda original: lambda **options: pads.ParquetFileFormat(**options)
    )
    for module in (staging, snapshot_rows):
        if hasattr(module, "open_verified"):
            _replace(module, "open_verified", lambda original: opened)


def _lease_ignored() -> None:
    without_lease = functools.partial(opened_pipeline.Runner, lease=False)
    opened_pipeline.Runner = without_lease  # type: ignore[misc,assignment]


def _ledger_before_state() -> None:
    """What the state's tables get is committed after the ledger row."""
    pending_commits: list[tuple[Folder, tuple[Any, ...], dict[str, Any]]] = []
    commit_files = Folder.commit_files

    def commit_or_wait(folder: Folder, *arguments: Any, **named: Any) -> None:
        if folder.name in ("window_state", "timers", "source_progress"):
            pending_commits.append((folder, arguments, named))
        else:
            commit_files(folder, *arguments, **named)

    def make(original: Function) -> Function:
        def commit(*arguments: Any, **named: Any) -> Any:
            rows = original(*arguments, **named)
            for folder, its_arguments, its_names in pending_commits:
                commit_files(folder, *its_arguments, **its_names)
            pending_commits.clear()
            return rows

        return commit

    Folder.commit_files = commit_or_wait  # type: ignore[method-assign]
    _replace(LedgerWriter, "commit", make)


def _published_before_corrections() -> None:
    """The step of `corrections` is taken last: what `published` gets does not follow from it."""
    pending_steps: list[tuple[Any, ...]] = []

    def make(original: Function) -> Function:
        def take_step(forward: RollForward, folder: Folder, *arguments: Any) -> Any:
            if folder.name == "corrections":
                pending_steps.append((folder, *arguments))
                return None
            draft = original(forward, folder, *arguments)
            original(forward, *pending_steps.pop())
            return draft

        return take_step

    _replace(RollForward, "take_step", make)


def _rolled_forward_twice() -> None:
    """How far a table has come is not looked at: each roll-forward begins at the first row."""
    _replace(roll_forward, "rolled_forward_to", lambda original: lambda table: _Everything())


class _Everything(int):
    """Above every seq after a commit, and 0 before it."""

    def __ge__(self, other: int) -> bool:
        return False

    def __lt__(self, other: int) -> bool:
        return False


def _run_id_reused() -> None:
    """The part of a run id that is drawn by lot is always the same."""

    class Fixed:
        hex = "0" * 32

    class Uuid:
        @staticmethod
        def uuid4() -> type[Fixed]:
            return Fixed

    run.uuid = Uuid  # type: ignore[attr-defined,assignment]


def _empty_commits_passed_over() -> None:
    for name in ("check_commits", "check_commit"):
        _replace(table_handles, name, _nothing)


def _damage_not_named() -> None:
    _replace(parquet, "damage", _nothing)


BREAKAGES: dict[str, Callable[[], None]] = {
    "the commit of published skipped": functools.partial(_commit_skipped, "published"),
    "the commit of late rows skipped": functools.partial(_commit_skipped, "late_events"),
    "a staged table left out": functools.partial(_commit_skipped, "quarantine"),
    "a row of panes doubled": functools.partial(
        _staged_rows_changed, "panes", lambda rows: pa.concat_tables([rows, rows.slice(0, 1)])
    ),
    "a row of the state lost": functools.partial(
        _staged_rows_changed, "window_state", lambda rows: rows.slice(1)
    ),
    "the ledger committed before the state": _ledger_before_state,
    "published before corrections": _published_before_corrections,
    "rolled forward twice": _rolled_forward_twice,
    "a run id used again": _run_id_reused,
    "the lease ignored": _lease_ignored,
    "checksums not compared": _checksums_not_compared,
    "empty commits passed over": _empty_commits_passed_over,
    "damage not named": _damage_not_named,
}
