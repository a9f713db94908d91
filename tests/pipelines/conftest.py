"""What tests that load files of pipelines leave behind."""

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture
def modules_as_before() -> Iterator[None]:
    """Afterwards the path of modules is as before, and modules that were loaded meanwhile are forgotten."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]
