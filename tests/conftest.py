"""What all tests share: a clean environment, one Spark session, and how hypothesis searches.

No test data and no assertions live here.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A user's own settings must change no result; only where downloads come from and go to is theirs.
_KEPT = {"SLACKWATER_CACHE", "SLACKWATER_IVY_SETTINGS", "SLACKWATER_SPARK_LOG"}

hypothesis.settings.register_profile("search", deadline=None, print_blob=True)
hypothesis.settings.register_profile("repeat", parent=hypothesis.settings.get_profile("search"), derandomize=True)


def pytest_configure(config: pytest.Config) -> None:
    for name in [name for name in os.environ if name.startswith("SLACKWATER_") and name not in _KEPT]:
        del os.environ[name]
    main = sys.modules["__main__"]
    if hasattr(config, "workerinput") and not hasattr(main, "__file__"):
        main.__file__ = (
            __file__  # a worker of pytest-xdist has none, and pyspark.sql.connect takes such a process for a doctest and ends it
        )
    # Importing Airflow writes into its home.
    os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="slackwater-airflow-")
    config.add_cleanup(lambda: shutil.rmtree(os.environ["AIRFLOW_HOME"], ignore_errors=True))
    hypothesis.settings.load_profile("repeat" if os.environ.get("CI") else "search")
    # Great Expectations imports modules of the standard library that are on their way out.
    config.addinivalue_line("filterwarnings", r"ignore:module 'sre_\w+' is deprecated:DeprecationWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """The product's own session on two cores, started by the first test that asks for it."""
    from jobs.runtime.session import session

    started = session("tests", "local[2]")
    yield started
    started.stop()
