"""The benchmark of long lists of state files runs, and finds what it looks for; no figure is asserted."""

from pathlib import Path

from tests.benchmarks.state_files import measure, write


def test_each_step_is_measured_and_one_commit_writes_a_checkpoint(tmp_path: Path) -> None:
    write(tmp_path, 3, 2)
    steps = measure(tmp_path, 3, 2)
    *_, commit, last_step = steps
    assert (len(steps), commit.name) == (5, "commit, and list")
    assert last_step.name == "commit, list, and write a checkpoint, after 7 without"
    checkpoints = sorted(tmp_path.glob("*/_delta_log/*.checkpoint.parquet"))
    assert [path.name[:20].lstrip("0") for path in checkpoints] == ["1", "9"]
