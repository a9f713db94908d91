"""After one flipped bit in any file of a warehouse, the next run either names the damage or has the same
result as without it; so has `verify`. `verify --tables` names the file, if a table's newest version has it.

Runs go on in this process. No command may succeed with another result.
"""

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.integration.command import driver, here
from tests.integration.driver import Plan
from tests.integration.stored import Row, StoredTables

DAY_3, DAY_4 = "2013-01-03", "2013-01-04"
ENGINES = ("columnar", "operator")
# Of what a run has stood in for, but when it did.
_OF_RUN = ("run_id", "started_at", "committed_at", "phase_seconds", "files", "at", "table_versions")


def replay(warehouse: Path, to: str, engine: str) -> int:
    return here("run", "departures", "--to", to, "--engine", engine, "--warehouse", warehouse)


def result(warehouse: Path) -> tuple[list[Row], list[tuple[object, ...]]]:
    """All that the lineage says of itself but names and wall times: `published`, and hashes and counts of
    each run.
    """
    stored = StoredTables(warehouse, "departures")
    rows = [
        {name: value for name, value in row.items() if name not in _OF_RUN}
        for row in stored.rows("published")
    ]
    runs = [
        (row["seq"], row["state_hash"], row["output_hash"], row["watermark_out"], row["rows_late"])
        for row in stored.ledger()
    ]
    return sorted(rows, key=lambda row: json.dumps(row, default=str, sort_keys=True)), runs


@dataclass
class Warehouse:
    """A warehouse after two days, the files that stand in it, and what the third day gives without damage.

    Attributes:
        live: the files among them that the newest version of a table of the pipeline has.
    """

    folder: Path
    engine: str
    files: list[Path] = field(init=False)
    live: set[Path] = field(init=False)
    right: tuple[list[Row], list[tuple[object, ...]]] = field(init=False)

    def __post_init__(self) -> None:
        self.files = sorted(
            path.relative_to(self.folder)
            for path in self.folder.rglob("*.parquet")
            if "_delta_log" not in path.parts
        )
        self.live = {
            Path(file).relative_to(self.folder)
            for log in (self.folder / "departures").rglob("_delta_log")
            for file in DeltaTable(str(log.parent)).file_uris()
        }
        assert self.live <= set(self.files)

    def kinds(self) -> dict[str, list[Path]]:
        """Table → its files."""
        kinds: dict[str, list[Path]] = {}
        for path in self.files:
            kinds.setdefault(path.parts[1], []).append(path)
        return kinds


@pytest.fixture(scope="module")
def prepared(flights: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Warehouse]:
    made = {}
    for engine in ENGINES:
        folder = shutil.copytree(flights, tmp_path_factory.mktemp(engine) / "warehouse")
        process = driver(
            Plan(), "run", "departures", "--to", DAY_3, "--engine", engine, "--warehouse", folder
        )
        assert process.returncode == 0, process.stderr
        made[engine] = Warehouse(folder, engine)
        whole = shutil.copytree(folder, folder.parent / "whole")
        process = driver(Plan(), "run", "departures", "--to", DAY_4, "--engine", engine, "--warehouse", whole)
        assert process.returncode == 0, process.stderr
        made[engine].right = result(whole)
    return made


def flip(path: Path, chance: random.Random) -> int:
    """Flip one bit of a file; returns which."""
    content = bytearray(path.read_bytes())
    bit = chance.randrange(8 * len(content))
    content[bit // 8] ^= 1 << bit % 8
    path.unlink()  # a copy may share it
    path.write_bytes(bytes(content))
    return bit


def check(
    prepared: dict[str, Warehouse], folder: Path, new_output: Callable[[], str], seed: int, flips: int
) -> dict[str, int]:
    """Flip bits, one at a time, in the files of each table in turn. Returns how many were told, by table."""
    chance, told = random.Random(seed), dict[str, int]()
    for number in range(flips):
        of = prepared[ENGINES[number % 2]]
        kinds = of.kinds()
        kind = sorted(kinds)[number // 2 % len(kinds)]
        warehouse = folder / str(number)
        shutil.copytree(of.folder, warehouse)
        file = chance.choice(kinds[kind])
        where = f"{of.engine}: bit {flip(warehouse / file, chance)} of {file} (seed {seed})"
        verified = here("verify", "departures", "--tables", "--warehouse", warehouse)
        repeated = here("verify", "departures", "2", "--warehouse", warehouse) if number % 4 == 0 else 0
        text = new_output()
        code = replay(warehouse, DAY_4, of.engine)
        text += new_output()
        assert {code, verified} <= {0, 1}, f"{where}: {text}"
        assert "Traceback" not in text and "<Buffer>" not in text, f"{where}: {text}"
        if code == 0:
            if (warehouse / file).exists():  # what the run has not written anew is not its result
                shutil.copy(of.folder / file, warehouse / file)
            assert result(warehouse) == of.right, f"{where}: silently wrong"
        if 1 in (code, verified, repeated):
            assert file.name in text, f"{where}: {text}"
            told[kind] = told.get(kind, 0) + 1
        assert verified or file not in of.live, f"{where}: `verify --tables` says that all is well"
        shutil.rmtree(warehouse)
    return told


@pytest.mark.slow
@pytest.mark.usefixtures("without_spark")
def test_a_flipped_bit_is_told_or_changes_nothing(
    prepared: dict[str, Warehouse], tmp_path: Path, new_output: Callable[[], str]
) -> None:
    told = check(prepared, tmp_path, new_output, seed=1, flips=8)
    assert {"_source_files": 2, "attempts": 2, "corrections": 2}.items() <= told.items()


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("without_spark")
def test_no_flipped_bit_of_hundreds_is_silently_wrong(
    prepared: dict[str, Warehouse], tmp_path: Path, new_output: Callable[[], str]
) -> None:
    told = check(prepared, tmp_path, new_output, seed=2, flips=320)
    assert {
        "window_state",
        "timers",
        "source_progress",
        "panes",
        "late_events",
        "published",
        "corrections",
        "runs",
    } <= set(told)
    assert sum(told.values()) >= 160
