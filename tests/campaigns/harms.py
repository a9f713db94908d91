"""The files of a pipeline's folder by table and part, and the ways in which a file of them is harmed.

Knows no verb. A chance of the caller's decides which bit, byte or other file.
"""

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

LOG = "_delta_log"
# Parts of a table: its rows, and three kinds of files of its log.
PARTS = ("rows", "commit", "checkpoint", "hint")
_PARQUET_END = 8


@dataclass(frozen=True)
class Place:
    """A file that is harmed: `file` below `folder`; `other_folder` is that of the same pipeline in another
    warehouse, with other rows.
    """

    folder: Path
    other_folder: Path
    file: Path

    @property
    def path(self) -> Path:
        return self.folder / self.file

    @property
    def part(self) -> str:
        return part_of(self.file)


Harm = Callable[[Place, random.Random], Path]


def part_of(file: Path) -> str:
    """Which of PARTS a file is."""
    if LOG not in file.parts:
        return "rows"
    if file.name == "_last_checkpoint":
        return "hint"
    return "checkpoint" if file.suffix == ".parquet" else "commit"


def files_by_table(folder: Path) -> dict[tuple[str, str], list[Path]]:
    """(table, part) → its files in the order in which they were written. A record of a source's files is the
    table `_source_files`.
    """
    files = sorted(
        (path for path in folder.rglob("*") if path.is_file()),
        key=lambda path: (path.stat().st_mtime_ns, path.name),
    )
    by_table: dict[tuple[str, str], list[Path]] = {}
    for path in files:
        file = path.relative_to(folder)
        by_table.setdefault((file.parts[0], part_of(file)), []).append(file)
    return by_table


def replace(path: Path, content: bytes) -> None:
    """Give a file another content. It is made anew: a copy may share it."""
    path.unlink()
    path.write_bytes(content)


def flip(place: Place, chance: random.Random, first: int = 0, end: int | None = None) -> Path:
    """Flip one bit of the bytes in [first, end)."""
    content = bytearray(place.path.read_bytes())
    bit = chance.randrange(8 * first, 8 * (len(content) if end is None else end))
    content[bit // 8] ^= 1 << bit % 8
    replace(place.path, bytes(content))
    return place.path


def flip_before_footer(place: Place, chance: random.Random) -> Path:
    """Flip a bit of a Parquet file's pages."""
    return flip(place, chance, end=_footer(place.path))


def flip_in_footer(place: Place, chance: random.Random) -> Path:
    """Flip a bit of a Parquet file's footer or of what follows it."""
    return flip(place, chance, first=_footer(place.path))


def _footer(path: Path) -> int:
    content = path.read_bytes()
    length = int.from_bytes(content[-_PARQUET_END : 4 - _PARQUET_END], "little")
    return len(content) - _PARQUET_END - length


def truncate(place: Place, chance: random.Random) -> Path:
    """Cut a file off at some byte."""
    content = place.path.read_bytes()
    replace(place.path, content[: chance.randrange(1, len(content))])
    return place.path


def lose_last_lines(place: Place, chance: random.Random) -> Path:
    """Cut a file of lines off between two of them; one of a single line keeps half of it."""
    content = place.path.read_bytes()
    lines = content.splitlines(keepends=True)
    line_count = chance.randrange(1, len(lines)) if len(lines) > 1 else 0
    replace(place.path, b"".join(lines[:line_count]) or content[: len(content) // 2])
    return place.path


def empty(place: Place, _: random.Random) -> Path:
    """Leave a file without bytes."""
    replace(place.path, b"")
    return place.path


def remove(place: Place, _: random.Random) -> Path:
    """Remove a file."""
    place.path.unlink()
    return place.path


def double(place: Place, _: random.Random) -> Path:
    """Put a second copy beside a file. A commit becomes the next version."""
    if place.part == "commit":
        newest = max(int(path.stem) for path in place.path.parent.glob("*.json"))
        copy = place.path.with_name(f"{newest + 1:020d}.json")
    else:
        copy = place.path.with_name(f"copy-of-{place.path.name}")
    return Path(shutil.copyfile(place.path, copy))


def take_from_another(place: Place, chance: random.Random) -> Path:
    """Replace a file by that of another warehouse: of the log the file of the same name, of rows one of the
    same table.
    """
    other = place.other_folder / place.file
    if not other.exists():
        same = files_by_table(place.other_folder)
        tables = [files for (table, part), files in same.items() if (table, part) == place_key(place)]
        other = place.other_folder / chance.choice(tables[0])
    replace(place.path, other.read_bytes())
    return place.path


def take_a_neighbour(place: Place, chance: random.Random) -> Path:
    """Replace a file by another one of the same table and part."""
    files = files_by_table(place.folder)[place_key(place)]
    others = [file for file in files if file != place.file]
    replace(place.path, (place.folder / chance.choice(others)).read_bytes())
    return place.path


def place_key(place: Place) -> tuple[str, str]:
    """The table and the part of a place's file."""
    return place.file.parts[0], place.part


HARMS: dict[str, dict[str, Harm]] = {
    "rows": {
        "bit flipped in pages": flip_before_footer,
        "bit flipped in the footer": flip_in_footer,
        "cut off": truncate,
        "emptied": empty,
        "removed": remove,
        "doubled": double,
        "of another warehouse": take_from_another,
        "of the same table": take_a_neighbour,
    },
    "commit": {
        "bit flipped": flip,
        "cut off": truncate,
        "last lines lost": lose_last_lines,
        "emptied": empty,
        "removed": remove,
        "doubled": double,
        "of another warehouse": take_from_another,
        "of the same table": take_a_neighbour,
    },
    "checkpoint": {
        "bit flipped": flip,
        "cut off": truncate,
        "emptied": empty,
        "removed": remove,
        "doubled": double,
        "of another warehouse": take_from_another,
    },
    "hint": {
        "bit flipped": flip,
        "cut off": truncate,
        "emptied": empty,
        "removed": remove,
        "of another warehouse": take_from_another,
    },
}
