"""How many requests a small slice makes. Each is a round trip of tens of milliseconds to a store that is far
away.
"""

import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import mean

from tests.integration.command import here
from tests.integration.driver import Plan
from tests.object_store.conftest import HourlyOnS3
from tests.object_store.proxy import Request

# On average, as some commits are followed by a checkpoint.
MOST_OF_A_SLICE, MOST_OF_A_PROCESS = 100, 300
CHECKPOINT_INTERVAL = 10


def is_ledger_commit(request: Request) -> bool:
    return request.kind == "PUT" and bool(re.search(r"/runs/_delta_log/\d+\.json", request.target))


def test_a_small_slice_makes_few_requests(hourly: HourlyOnS3) -> None:
    """From one commit of the ledger to the next, in a run of several slices."""
    assert hourly.here("run", "--to", "2013-01-08") == 0
    requests = hourly.store.proxy.requests()
    ends = [number for number, request in enumerate(requests, 1) if is_ledger_commit(request)]
    assert len(ends) == 5
    slices = [requests[start:end] for start, end in pairwise(ends)]
    kinds = [[request.kind for request in requests_of_slice] for requests_of_slice in slices]
    assert mean(map(len, kinds)) <= MOST_OF_A_SLICE, kinds


def test_a_process_that_runs_one_slice_opens_each_table_by_few_requests(hourly: HourlyOnS3) -> None:
    """Each command opens the pipeline's tables anew, in a process of its own. There are as many of them as
    commits between two checkpoints of a table, behind the first checkpoint.
    """
    days = ("--from", "2013-01-09", "--to", "2013-01-14")
    assert here("examples", "load", "departures", *days, *hourly.where[:2]) == 0
    for hour in range(1, CHECKPOINT_INTERVAL + 1):
        assert hourly.here("run", "--to", f"2013-01-03T{hour:02}:00") == 0
    counts, end = [], datetime(2013, 1, 3, CHECKPOINT_INTERVAL, tzinfo=UTC)
    while len(counts) < CHECKPOINT_INTERVAL:
        start, end = end, datetime(2013, 1, 4, tzinfo=UTC) + len(counts) * timedelta(hours=12)
        hourly.store.proxy.forget()
        result = hourly.driver(
            Plan(), "run", "--from", f"{start:%Y-%m-%dT%H:%M}", "--to", f"{end:%Y-%m-%dT%H:%M}"
        )
        assert result.returncode == 0, result.stderr
        counts.append(hourly.store.proxy.counts())
    assert mean(map(Counter.total, counts)) <= MOST_OF_A_PROCESS, counts
