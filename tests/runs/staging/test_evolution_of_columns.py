"""Which derived columns of the sources may come and go between two runs: those that are not read both before
and after; and which are refused, source by source.
"""

from dataclasses import replace
from typing import Any

import pytest

from slackwater.pipelines import DeltaSource, Pipeline, agg
from slackwater.runs.staging.evolution import SettingsChanged, as_declared, check_settings
from tests.runs.world import DAILY

N = {"n": agg.count()}
TOTAL = {"total": agg.sum("v")}


def one(derived_there: dict[str, str], **settings: Any) -> Pipeline:
    return replace(
        DAILY, **{"source": replace(DAILY.sources[0], derive=derived_there), "select": N, **settings}
    )


def two(first: dict[str, Any], second: dict[str, Any], **settings: Any) -> Pipeline:
    sources = [
        DeltaSource("web", **{"event_time": "e", "arrival_time": "a", **first}),
        DeltaSource("till", **{"event_time": "e", "arrival_time": "a", **second}),
    ]
    return replace(DAILY, **{"source": sources, "select": N, **settings})


def from_here_on(before: Pipeline, after: Pipeline) -> list[str]:
    return [str(item) for item in check_settings(after, before.describe(), 7, 0)]


def refused(before: Pipeline, after: Pipeline) -> list[str]:
    with pytest.raises(SettingsChanged) as refusal:
        check_settings(after, before.describe(), 7, 0)
    return [str(item) for item in refusal.value.facts["differences"]]


def test_a_column_of_one_source_comes_with_the_result_that_reads_it() -> None:
    before, after = one({}), one({"v": "2 * x"}, select=N | TOTAL)
    assert from_here_on(before, after) == ["select.total: none → sum(v)", "source.derive.v: none → 2 * x"]
    assert from_here_on(after, before) == ["select.total: sum(v) → none", "source.derive.v: 2 * x → none"]


def test_a_column_that_a_result_reads_before_and_after_stays_as_it_is() -> None:
    """Derived in one of the two, it comes from the table, or from elsewhere, in the other."""
    derived, stored = one({"v": "2 * x"}, select=TOTAL), one({}, select=TOTAL)
    assert refused(stored, derived) == ["source.derive.v: none → 2 * x"]
    assert refused(derived, stored) == ["source.derive.v: 2 * x → none"]
    moved = one({}, select=TOTAL, derive={"v": "3 * x"})
    assert refused(derived, moved) == ["derive.v: none → 3 * x", "source.derive.v: 2 * x → none"]


@pytest.mark.parametrize(
    "reader",
    [
        {"where": "v > 0"},
        {"select": {"n": agg.count(where="v > 0")}},
        {"derive": {"w": "v + 1"}, "select": {"total": agg.sum("w")}},
        {"key_by": "v"},
        {"key_by": {"key": "v + 1"}},
        {"distinct_by": "v"},
    ],
    ids=lambda reader: next(iter(reader)),
)
def test_whatever_reads_a_column_keeps_it(reader: dict[str, Any]) -> None:
    assert refused(one({}, **reader), one({"v": "2 * x"}, **reader)) == ["source.derive.v: none → 2 * x"]


def test_a_column_from_which_another_one_is_derived_stays_as_it_is() -> None:
    reader = {"w": "v + 1"}
    before = one(reader, select={"total": agg.sum("w")})
    after = one({**reader, "v": "2 * x"}, select={"total": agg.sum("w")})
    assert refused(before, after) == ["source.derive.v: none → 2 * x"]
    assert from_here_on(one(reader), after) == [
        *("select.n: count() → none", "select.total: none → sum(w)", "source.derive.v: none → 2 * x")
    ]


def test_another_expression_is_refused_also_where_nobody_reads_it() -> None:
    assert refused(one({"v": "2 * x"}), one({"v": "3 * x"})) == ["source.derive.v: 2 * x → 3 * x"]


def test_each_of_several_sources_has_its_own_columns() -> None:
    before = two({"derive": {"v": "x"}}, {"derive": {"v": "2 * x"}}, select=TOTAL)
    after = two({"derive": {"v": "x"}}, {"derive": {"v": "3 * x"}}, select=TOTAL)
    assert refused(before, after) == ["source[till].derive.v: 2 * x → 3 * x"]
    more = {"w": "x + 1"}
    after = two(
        {"derive": {"v": "x"} | more},
        {"derive": {"v": "2 * x"}, "lacks": ["w"]},
        select=TOTAL | {"w": agg.sum("w")},
    )
    assert from_here_on(before, after) == [
        "select.w: none → sum(w)",
        "source[web].derive.w: none → x + 1",
        "source[till].lacks: [] → [w]",
    ]
    assert len(from_here_on(after, before)) == 3


def test_what_a_source_lacks_or_names_otherwise_stays_as_it_is_where_it_is_read() -> None:
    stored, derived = {}, {"derive": {"v": "2 * x"}}
    before = two(derived, stored, select=TOTAL)
    assert refused(before, two(derived, {"lacks": ["v"]}, select=TOTAL)) == ["source[till].lacks: [] → [v]"]
    assert refused(before, two(derived, {"rename": {"x": "v"}}, select=TOTAL)) == [
        "source[till].rename.x: none → v"
    ]
    assert from_here_on(before, two(derived, {"rename": {"x": "z"}}, select=TOTAL)) == [
        "source[till].rename.x: none → z"
    ]


def test_other_sources_are_refused_as_ever() -> None:
    before = two({}, {})
    [swapped] = refused(before, replace(before, source=before.sources[::-1]))
    assert swapped.startswith("source: [DeltaSource(") and swapped.count("web") == 2
    other = [before.sources[0], replace(before.sources[1], table="shop", name="till")]
    assert refused(before, replace(before, source=other)) == [
        "source[till].name: none → till",
        "source[till].table: till → shop",
    ]
    assert refused(before, two({}, {"zone": "Europe/Berlin"})) == ["source[till].zone: none → Europe/Berlin"]


def test_a_run_of_before_is_repeated_with_the_columns_of_before() -> None:
    before = two({"derive": {"v": "x"}}, {"lacks": ["v"]}, select=TOTAL)
    after = two({"derive": {"w": "x"}}, {"rename": {"y": "w"}}, select={"w": agg.sum("w")})
    assert as_declared(after, before.describe()).describe() == before.describe()
