"""Unpacks the archives that stored warehouses are kept in."""

import tarfile
from pathlib import Path


def unpack(archive_file: Path, folder: Path) -> None:
    """Unpack `archive_file` below `folder`, with tarfile's filter for data where this Python has it (from
    3.11.4 on).
    """
    with tarfile.open(archive_file) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)
