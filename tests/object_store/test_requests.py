"""How many requests a small slice makes. Each is a round trip of tens of milliseconds to a store that is far
away.
"""

import re
from collections import Counter
from itertools import pairwise
from statistics import mean

from tests.object_store.conftest import HourlyOnS3
from tests.object_store.proxy import Request

# On average, as every third commit of a table writes a checkpoint.
MOST_OF_A_SLICE, MOST_OF_A_PROCESS = 50, 85


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
    assert not any("LIST" in kind for kind in kinds)


def test_a_process_that_runs_one_slice_opens_each_table_by_few_requests(hourly: HourlyOnS3) -> None:
    """Each command opens the pipeline's tables anew."""
    counts = []
    for day in ("2013-01-04", "2013-01-05", "2013-01-06"):
        hourly.store.proxy.forget()
        assert hourly.here("run", "--to", day) == 0
        counts.append(hourly.store.proxy.counts())
    assert mean(map(Counter.total, counts)) <= MOST_OF_A_PROCESS, counts
    assert not any(count["LIST"] for count in counts)
