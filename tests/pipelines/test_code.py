"""The code hash of a pipeline (`pipelines.code`), hashes that earlier versions recorded, and the refusal
of former import lines.

Expected hashes of earlier versions are computed here as those versions did: SHA-256 over version, names and
bytes.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from slackwater.pipelines.code import PipelineCode, front_door_lines
from slackwater.pipelines.registry import PipelinesFileError, load

BODY = """
hours = Pipeline(
    name="hours",
    source=DeltaSource("mine", event_time="e", arrival_time="a"),
    watermarks=WatermarkStrategy.for_monotonous_timestamps(),
    key_by="k",
    window=TumblingEventTimeWindows.of(timedelta(hours=1)),
    select={"n": {agg}count(), "highest": {agg}max{_}("x"), "lowest": {agg}min{_}("x")},
    start="2020-01-01",
)
"""
FORMER = (
    '"""Hours of mine."""\n\nfrom datetime import timedelta\n\n'
    "from jobs.pipelines import DeltaSource, Pipeline, count, max_, min_\n"
    "from windowing import TumblingEventTimeWindows, WatermarkStrategy\n"
    + BODY.replace("{agg}", "").replace("{_}", "_")
)
PREFIXED = FORMER.replace("from jobs", "from slackwater").replace(
    "from windowing", "from slackwater.windowing"
)
FRONT_DOOR = (
    '"""Hours of mine."""\n\nfrom datetime import timedelta\n\n'
    "from slackwater import DeltaSource, Pipeline, TumblingEventTimeWindows, WatermarkStrategy, agg\n"
    + BODY.replace("{agg}", "agg.").replace("{_}", "")
)


def recorded_before(version: str, **files: str) -> str:
    """The code hash of files as a version before the front door recorded it."""
    digest = hashlib.sha256(version.encode())
    for name, text in sorted(files.items()):
        digest.update(b"\0" + f"{name}.py".encode() + b"\0" + text.encode())
    return digest.hexdigest()


def code_of(folder: Path, version: str = "1", **files: str) -> PipelineCode:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return PipelineCode.of({f"{name}.py": folder / f"{name}.py" for name in files}, version)


@pytest.mark.parametrize("text", [FORMER, PREFIXED, FRONT_DOOR], ids=["as it was", "prefixed", "front door"])
def test_a_hash_recorded_before_the_front_door_is_recognised(tmp_path: Path, text: str) -> None:
    code = code_of(tmp_path, mine=text)
    assert code.recognises(recorded_before("1", mine=FORMER))


def test_a_lineage_goes_on_under_the_hash_that_it_has(tmp_path: Path) -> None:
    code = code_of(tmp_path, mine=FRONT_DOOR)
    recorded_hash = recorded_before("1", mine=FORMER)
    assert code.hash_after(recorded_hash) == recorded_hash
    assert code.hash_after(code.hash) == code.hash_after(None) == code.hash


@pytest.mark.parametrize(
    "changed_text",
    [FORMER.replace("hours=1", "hours=2"), FORMER + "# a remark\n", FORMER.replace("max_", "mean")],
    ids=["a duration", "a remark", "an aggregate"],
)
@pytest.mark.parametrize("text", [PREFIXED, FRONT_DOOR], ids=["prefixed", "front door"])
def test_a_hash_of_other_code_is_not_recognised(tmp_path: Path, text: str, changed_text: str) -> None:
    code = code_of(tmp_path, mine=text)
    recorded_hash = recorded_before("1", mine=changed_text)
    assert not code.recognises(recorded_hash)
    assert code.hash_after(recorded_hash) == code.hash != recorded_hash


def test_a_hash_of_another_version_is_not_recognised(tmp_path: Path) -> None:
    recorded_hash = recorded_before("1", mine=FORMER)
    assert not code_of(tmp_path, version="2", mine=FRONT_DOOR).recognises(recorded_hash)


def test_files_beside_the_pipeline_count_in_former_hashes_too(tmp_path: Path) -> None:
    beside = "from windowing import Trigger\n\nclass Mine(Trigger): ...\n"
    code = code_of(tmp_path, mine=PREFIXED, beside=beside.replace("windowing", "slackwater.windowing"))
    assert code.recognises(recorded_before("1", mine=FORMER, beside=beside))
    assert not code.recognises(recorded_before("1", mine=FORMER))


def test_wrapped_imports_of_that_time_are_recognised(tmp_path: Path) -> None:
    names = [
        "EventTimeSessionWindows",
        "SlidingEventTimeWindows",
        "TumblingEventTimeWindows",
        "WatermarkStrategy",
    ]
    former = "from windowing import (\n" + "".join(f"    {name},\n" for name in names) + ")\n"
    code = code_of(tmp_path, mine=f"from slackwater import {', '.join(names)}\n")
    assert code.recognises(recorded_before("1", mine=former))


@pytest.mark.parametrize(
    "imports",
    [
        "from slackwater import Pipeline, agg\n",
        "from slackwater import agg\nfrom slackwater import Pipeline\n",
        "from slackwater import (\n    Pipeline,\n    agg,\n)\n\n\n",
        "from slackwater.pipelines import Pipeline, agg\n",
    ],
)
def test_where_a_name_of_ours_is_imported_from_does_not_count(tmp_path: Path, imports: str) -> None:
    plain = code_of(tmp_path / "a", mine="import os\nfrom slackwater import Pipeline, agg\nX = agg.count()\n")
    assert code_of(tmp_path / "b", mine=f"import os\n{imports}X = agg.count()\n").hash == plain.hash


@pytest.mark.parametrize(
    "text",
    [
        "import os\nfrom slackwater import Pipeline\nX = agg.count()\n",
        "import os\nfrom slackwater import Pipeline as agg\nX = agg.count()\n",
        "import sys\nfrom slackwater import Pipeline, agg\nX = agg.count()\n",
        "import os\nfrom slackwater import Pipeline, agg\nX = agg.sum('x')\n",
    ],
    ids=["a name less", "another name for it", "another module of others", "the code"],
)
def test_every_other_change_of_a_file_changes_its_hash(tmp_path: Path, text: str) -> None:
    plain = code_of(tmp_path / "a", mine="import os\nfrom slackwater import Pipeline, agg\nX = agg.count()\n")
    assert code_of(tmp_path / "b", mine=text).hash != plain.hash


def test_a_file_that_is_no_python_of_this_version_counts_by_its_bytes(tmp_path: Path) -> None:
    first = code_of(tmp_path / "a", mine="X = 1\n", old="print 'two'\n")
    assert first.hash == code_of(tmp_path / "b", mine="X = 1\n", old="print 'two'\n").hash
    assert first.hash != code_of(tmp_path / "c", mine="X = 1\n", old="print 'three'\n").hash


@pytest.mark.parametrize(
    ("former", "lines"),
    [
        (
            "from jobs.pipelines import DeltaSource, Pipeline, count, expect, max_\n"
            "from windowing import TumblingEventTimeWindows\n",
            ["from slackwater import DeltaSource, Pipeline, TumblingEventTimeWindows, agg, expect"],
        ),
        ("import windowing\n", ["from slackwater import windowing"]),
        (
            "import windowing as w, jobs.pipelines as p\n",
            ["from slackwater import windowing as w", "import slackwater.pipelines as p"],
        ),
        ("from windowing import Trigger as T\n", ["from slackwater import Trigger as T"]),
        (
            "from jobs.examples.departures import departures as mine\n",
            ["from slackwater.examples.departures import departures as mine"],
        ),
        (
            "from windowing.testing import OperatorHarness\n",
            ["from slackwater.testing import OperatorHarness"],
        ),
        ("from slackwater import agg\nfrom mine import jobs\nimport json\n", []),
    ],
)
def test_former_import_lines_are_translated_to_the_front_door(former: str, lines: list[str]) -> None:
    assert front_door_lines(former) == lines


def test_a_file_with_former_imports_is_refused_with_the_line_to_write(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FORMER)
    line = (
        "    from slackwater import DeltaSource, Pipeline, TumblingEventTimeWindows, WatermarkStrategy, agg\n"
    )
    with pytest.raises(PipelinesFileError, match=r"Slackwater is imported by one name now") as refusal:
        load(str(tmp_path / "mine.py"))
    assert line in str(refusal.value)
    assert str(tmp_path / "mine.py") in str(refusal.value)


def test_the_refusal_names_a_module_beside_the_file_if_that_has_the_former_import(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import gaps_of_mine\n")
    (tmp_path / "gaps_of_mine.py").write_text("from windowing import Trigger\n")
    with pytest.raises(
        PipelinesFileError, match=r"gaps_of_mine\.py: .*\n    from slackwater import Trigger\n"
    ):
        load(str(tmp_path / "mine.py"))


def test_a_users_own_package_of_that_name_is_imported(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "__init__.py").write_text("from slackwater.examples.departures import departures\n")
    (tmp_path / "mine.py").write_text(
        "from dataclasses import replace\nfrom jobs import departures\nmine = replace(departures, "
        "name='mine')\n"
    )
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from slackwater.pipelines.registry import load\n"
        f"print('mine' in load({str(tmp_path / 'mine.py')!r}))"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert process.stdout == "True\n", process.stderr
