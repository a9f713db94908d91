"""What all tests share: a clean environment, one Spark session, one browser, and how hypothesis searches.

No test data and no assertions live here.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from tests.properties.search import LONG

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from pyspark.sql import SparkSession

# A user's own settings must change no result; only where downloads come from and go to is theirs.
_KEPT = {
    "SLACKWATER_CACHE",
    "SLACKWATER_CHROMIUM",
    "SLACKWATER_IVY_SETTINGS",
    "SLACKWATER_REQUIRE_BROWSER",
    "SLACKWATER_SPARK_LOG",
}
# Where a test takes seconds: begun first, so that no process is left alone with a long file at the end.
_COSTLY = (
    "tests/cli/",
    "tests/runs/",
    "tests/integration/",
    "tests/properties/",
    "tests/conformance/",
)
# Tests that measure, or wait for processes of their own, and so have the machine to themselves.
_ALONE = (
    "tests/benchmarks/",
    "tests/browser/",
    "tests/integration/airflow/",
    "tests/integration/test_bounded_memory.py",
    "tests/engine/replaying/test_task_memory.py",
)
# Files with fast tests that ask for the fixture `spark`.
_ON_SPARK = {
    "tests/integration/test_replays_of_flights.py",
    "tests/integration/test_turnarounds.py",
    "tests/engine/transport/test_transport.py",
    "tests/runtime/test_session.py",
    "tests/runtime/test_user_code.py",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--short-search",
        action="store_true",
        help="among the slow tests, too, random searches are as short as in the fast suite, which has most",
    )


def pytest_configure(config: pytest.Config) -> None:
    prefixes = ("SLACKWATER_", "OPENLINEAGE_")
    for name in [name for name in os.environ if name.startswith(prefixes) and name not in _KEPT]:
        del os.environ[name]
    main = sys.modules["__main__"]
    if hasattr(config, "workerinput") and not hasattr(main, "__file__"):
        # a worker of pytest-xdist has none, and pyspark.sql.connect takes such a process for a doctest and
        # ends it
        main.__file__ = __file__
    # Importing Airflow writes into its home.
    os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="slackwater-airflow-")
    config.add_cleanup(lambda: shutil.rmtree(os.environ["AIRFLOW_HOME"], ignore_errors=True))
    is_slow = config.option.markexpr.startswith("slow")
    search = LONG if is_slow and not config.getoption("--short-search") else "short search"
    hypothesis.settings.register_profile(
        search, deadline=None, print_blob=True, derandomize=bool(os.environ.get("CI"))
    )
    hypothesis.settings.load_profile(search)
    # Great Expectations imports modules of the standard library that are on their way out.
    config.addinivalue_line("filterwarnings", r"ignore:module 'sre_\w+' is deprecated:DeprecationWarning")


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    fast_tests = set()
    for item in items:
        if item.get_closest_marker("first_fast") and not item.get_closest_marker("slow"):
            test = item.nodeid.partition("[")[0]
            if test in fast_tests:
                item.add_marker(pytest.mark.slow)
            fast_tests.add(test)
        if item.nodeid.startswith(_ALONE):
            item.add_marker(pytest.mark.alone)
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: not item.nodeid.startswith(_COSTLY))
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With --dist=loadfile a file's tests stay together as ever, and those that share the Spark session are
    for one process.
    """
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class OneSession(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return "spark" if file in _ON_SPARK else file

    config.option.loadscopereorder = False  # what costs most has been put first
    return OneSession(config, log)


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """The product's own session on two cores, started by the first test that asks for it."""
    from slackwater.runtime.session import session

    started = session("tests", "local[2]")
    yield started
    started.stop()


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """The distribution's Chromium. Where there is none its tests are skipped, or fail if
    SLACKWATER_REQUIRE_BROWSER is set.
    """
    from tests.browser.chromium import chromium, launched

    if chromium() is None:
        if os.environ.get("SLACKWATER_REQUIRE_BROWSER"):
            pytest.fail("no Chromium on the PATH, and SLACKWATER_REQUIRE_BROWSER asks for one")
        pytest.skip("no Chromium on the PATH: no page was opened in a browser")
    with launched() as browser:
        yield browser
