"""Warehouses that earlier states of the product wrote (`PROVENANCE` says which), unpacked for a test."""

from pathlib import Path

from tests.warehouses.archives import unpack

FOLDER = Path(__file__).parent
PIPELINES = FOLDER / "pipelines.py"
FORMATS = sorted(
    int(file.name.removeprefix("format_").removesuffix(".tar.gz")) for file in FOLDER.glob("format_*.tar.gz")
)


def unpacked(folder: Path, number: int = 1) -> Path:
    """The warehouse of format `number`, unpacked below `folder`: pipelines `readings`, `peaks` and `totals`
    over three days of five.

    `readings` has a redrive, a restatement that was published (run 7) and a branch `trial`; `peaks` a branch
    that was not published; `totals` a staged run of the fourth day. `write.py` has the commands.
    """
    unpack(FOLDER / f"format_{number}.tar.gz", folder)
    return folder / "warehouse"
