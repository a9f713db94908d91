"""The border between DAGs and commands: every argument list, and manifests that are complete, missing,
foreign or incomplete.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slackwater import args
from slackwater.args import Failure, Manifest, ManifestError, read_manifest, write_manifest

MANIFEST = Manifest(
    pipeline="departures",
    outcome="staged",
    exit_code=0,
    run_id="b2",
    run_ids=("a1", "b2"),
    verdict="warned",
    message="2 slices staged",
    failures=(
        Failure(
            run_id="b2",
            expectation="between",
            column_name="flights",
            severity="warn",
            observed="0",
            unexpected=3,
            checked=8,
            samples="[9]",
        ),
    ),
    slices=(("2013-01-01T00:00:00+00:00", "2013-01-02T00:00:00+00:00"),),
    stale=(("2012-12-01T00:00:00Z", "2012-12-03T00:00:00Z"),),
    counts={
        "rows_read": 9,
        "windows_fired": 4,
        "windows_refired": 1,
        "rows_late": 2,
        "rows_quarantined": 0,
    },
    seconds=0.25,
)


def test_arguments_are_spelled_as_the_verbs_take_them() -> None:
    assert args.run("p", to="2013-01-02", manifest="m.json", warehouse="w", pipelines="f.py") == [
        *(
            "run",
            "p",
            "--to",
            "2013-01-02",
            "--accept",
            "",
            "--no-publish",
            "--manifest",
            "m.json",
            "--log-format",
            "progress",
            "--warehouse",
            "w",
            "--pipelines",
            "f.py",
        )
    ]
    assert args.publish("p", "b2", warehouse="w") == [
        *("publish", "p", "b2", "--no-deliver", "--log-format", "progress", "--warehouse", "w")
    ]
    assert args.maintain("p", warehouse="w") == [
        *("maintain", "p", "--log-format", "progress", "--warehouse", "w")
    ]
    assert args.health(warehouse="w", as_json=True) == ["health", "--warehouse", "w", "--output", "json"]
    assert args.deliver("p", "report", warehouse="w") == [
        *("sinks", "deliver", "p", "report", "--warehouse", "w")
    ]
    assert args.runs("p", since=7, warehouse="w") == [
        "runs",
        "p",
        "--since",
        "7",
        "--warehouse",
        "w",
        "--output",
        "json",
    ]


def test_commands_in_a_text_work_in_any_shell() -> None:
    text = "run `slackwater run p --to T --all`, or `slackwater runs p --warehouse w`; not `published`"
    assert args.with_places(text, warehouse="s3://lake/w", pipelines="/my files/p.py") == (
        "run `slackwater run p --to T --all --warehouse s3://lake/w --pipelines '/my files/p.py'`, or "
        "`slackwater runs p --warehouse w`; not `published`"
    )


@pytest.mark.parametrize(
    "manifest",
    [
        MANIFEST,
        replace(MANIFEST, outcome="nothing", run_id=None, run_ids=(), verdict=None, failures=(), slices=()),
        replace(
            MANIFEST,
            outcome="lost",
            exit_code=5,
            run_id=None,
            run_ids=(),
            verdict=None,
            failures=(),
            slices=(),
        ),
    ],
)
def test_a_manifest_is_read_as_it_was_written(tmp_path: Path, manifest: Manifest) -> None:
    file = tmp_path / "made" / "on" / "the way" / "run.json"
    write_manifest(replace(manifest, message="an earlier try"), file)
    write_manifest(manifest, file)
    assert read_manifest(file) == manifest
    assert [entry.name for entry in file.parent.iterdir()] == ["run.json"]


def test_the_format_is_the_documented_one(tmp_path: Path) -> None:
    write_manifest(MANIFEST, tmp_path / "run.json")
    assert json.loads((tmp_path / "run.json").read_text()) == {
        "format": 3,
        "pipeline": "departures",
        "outcome": "staged",
        "exit_code": 0,
        "run_id": "b2",
        "run_ids": ["a1", "b2"],
        "verdict": "warned",
        "message": "2 slices staged",
        "failures": [
            {
                "run_id": "b2",
                "expectation": "between",
                "column_name": "flights",
                "severity": "warn",
                "observed": "0",
                "unexpected": 3,
                "checked": 8,
                "samples": "[9]",
            }
        ],
        "slices": [["2013-01-01T00:00:00+00:00", "2013-01-02T00:00:00+00:00"]],
        "stale": [["2012-12-01T00:00:00Z", "2012-12-03T00:00:00Z"]],
        "counts": {
            "rows_read": 9,
            "windows_fired": 4,
            "windows_refired": 1,
            "rows_late": 2,
            "rows_quarantined": 0,
        },
        "seconds": 0.25,
    }


def test_a_missing_manifest_names_the_file_and_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"run\.json.*SLACKWATER_MANIFESTS") as caught:
        read_manifest(tmp_path / "run.json")
    assert caught.value.file == tmp_path / "run.json"  # type: ignore[attr-defined]


def spoilt(**changes: Any) -> str:
    values = {
        "format": 3,
        **{
            name: getattr(MANIFEST, name)
            for name in ("pipeline", "outcome", "exit_code", "run_id", "verdict", "message")
        },
        "run_ids": ["a1", "b2"],
        "failures": [],
        "slices": [["a", "b"]],
        "stale": [],
        "counts": {},
        "seconds": 1.5,
    }
    return json.dumps({name: value for name, value in {**values, **changes}.items() if value != "left out"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (spoilt()[:-9], "Unterminated string"),
        ("[]", "holds a list"),
        (spoilt(format=1), "format is 1"),
        (spoilt(format="left out"), "format is None"),
        (spoilt(verdict="left out"), "lacks .'verdict'"),
        (spoilt(watermark=5), "'watermark'. too much"),
        (spoilt(outcome="done"), "outcome is 'done'"),
        (spoilt(verdict="fine"), "verdict is 'fine'"),
        (spoilt(run_id=None), "names no run"),
        (spoilt(failures=[{"run_id": "b2"}]), "Failure has"),
        (spoilt(slices=[["a"]]), "unpack"),
    ],
)
def test_a_file_that_is_no_manifest_of_this_format_is_refused_by_name(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(ManifestError, match=f"not a manifest of format 3: .*{message}"):
        read_manifest(tmp_path / "run.json")


def test_the_text_that_the_cases_above_spoil_is_whole(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(spoilt())
    assert read_manifest(tmp_path / "run.json").run_ids == ("a1", "b2")
