"""A lineage of the test's own."""

from pathlib import Path

import pytest

from tests.inspection.health.subjects import Lineage


@pytest.fixture
def lineage(tmp_path: Path) -> Lineage:
    return Lineage(tmp_path)
