"""The rules by which declarations may change between two runs of one lineage, and what a change means for the
windows and timers that are parked.

Compares two declarations as plain values, the recorded one of the parent and today's. Touches no table.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from datetime import timedelta
from typing import Any, Literal

from slackwater.errors import UsageError
from slackwater.pipelines import Aggregate, Pipeline
from slackwater.pipelines.canonical import plain_value
from slackwater.pipelines.columns import parse_columns
from slackwater.pipelines.sources import Source
from slackwater.readable import exact_duration_text
from slackwater.runs.staging.columns_in_use import aggregate_of, columns_in_use, described_sources
from slackwater.runs.staging.slices import iso
from slackwater.tables.errors import new_lineage

Kind = Literal["free", "published", "converted", "from here on", "at a tick boundary", "refused", "lasting"]

# What a change of each setting of `Pipeline` means; of two paths that match, the longer one counts. A setting
# that has no entry is refused. A change "from here on" is about results and derived columns that come and go:
# results that are added are null in windows that are open, those that are removed in all later rows; another
# definition of one that stays is refused, also of a column that is read before and after. A "lasting" setting
# can't even change where a lineage is restated from its start, because rows of `published` and `corrections`
# are identified by it. The settings in `_TELLING_ROWS_APART` are lasting where the change makes firings
# replace each other that stood side by side, or the other way round.
RULES: Mapping[str, Kind] = {
    **dict.fromkeys(("expect", "start", "timezone", "schedule", "slice", "max_catch_up", "settle"), "free"),
    **dict.fromkeys(("approve_warnings", "keep_snapshots", "keep_snapshot_every", "keep_history"), "free"),
    **dict.fromkeys(("sinks", "on", "health"), "free"),
    # These change neither state nor panes, only what is published of these.
    **dict.fromkeys(("results", "hidden", "having"), "published"),
    **dict.fromkeys(("allowed_lateness", "max_ahead", "max_behind", "stragglers", "where"), "converted"),
    # These change no parked state, only what a run computes from its elements.
    **dict.fromkeys(("late_refires", "on_error", "pickled_state"), "converted"),
    **dict.fromkeys(("watermarks.out_of_orderness_ms", "watermarks.idle_timeout_ms"), "converted"),
    "watermarks.interval_ms": "at a tick boundary",
    "max_parallelism": "lasting",
    "window_columns": "lasting",
    **dict.fromkeys(("name", "source", "distinct_by", "watermarks", "key_by"), "refused"),
    **dict.fromkeys(("window", "trigger", "evictor", "flink_exact"), "refused"),
    **dict.fromkeys(("process", "reduce", "aggregate", "side_outputs", "columns", "records"), "refused"),
    **dict.fromkeys(("select", "output", "derive"), "from here on"),
    **dict.fromkeys(("source.derive", "source.lacks", "source.rename"), "from here on"),
}
_TELLING_ROWS_APART = ("window", "trigger", "process")
# Triggers that never purge. A trigger that is neither here nor a wrapper of one that is may purge.
_ACCUMULATING = {
    *(
        "EventTimeTrigger",
        "ProcessingTimeTrigger",
        "ContinuousEventTimeTrigger",
        "ContinuousProcessingTimeTrigger",
    ),
    *("CountTrigger", "DeltaTrigger", "NeverTrigger", "EndOfStreamTrigger"),
}
# The path of a setting of the only source, or of one of several.
_SETTING_OF_SOURCE = re.compile(r"^source(\[(?P<title>.*)\])?\.")
_AGGREGATE_SETTINGS = tuple(item.name for item in fields(Aggregate)[2:])
# Monotonous timestamps are a bound of zero: between these two only the bound changes.
_BOUNDED_STRATEGIES = {"bounded_out_of_orderness", "monotonous"}


class SettingsChanged(UsageError):
    """The parked state can't follow a changed declaration. Facts: pipeline, differences."""


@dataclass(frozen=True)
class Difference:
    """A setting (``window.size_ms``) that differs between two declarations, with plain values; see
    `RULES`.
    """

    path: str
    before: Any
    after: Any
    kind: Kind

    @property
    def change(self) -> str:
        return f"{_shown(self.before)} → {_shown(self.after)}"

    @property
    def adds_result(self) -> bool:
        return self._is_growth_of_select and self.before is None

    @property
    def removes_result(self) -> bool:
        return self._is_growth_of_select and self.after is None

    @property
    def _is_growth_of_select(self) -> bool:
        return self.kind == "from here on" and self.path.startswith("select.")

    def __str__(self) -> str:
        return f"{self.path}: {self.change}"


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """The settings that differ between two descriptions of a pipeline (`Pipeline.describe`), in the order
    of their paths. A setting that one of them lacks counts as its default.
    """
    complete_settings, after = _with_defaults(before), _with_defaults(after)
    changed_settings = [
        Difference(path, old, new, _kind(path)) for path, old, new in _differing("", complete_settings, after)
    ]
    changed_settings = [
        replace(item, kind="refused")
        if item.kind == "from here on" and not _is_growth(item, complete_settings, after)
        else item
        for item in changed_settings
    ]
    if _what_firings_replace(complete_settings) != _what_firings_replace(after):
        changed_settings = [
            replace(item, kind="lasting") if item.path.split(".")[0] in _TELLING_ROWS_APART else item
            for item in changed_settings
        ]
    return [item for item in changed_settings if not _is_bound(item)]


def _what_firings_replace(description: Mapping[str, Any]) -> str:
    """Which rows of `published` a firing replaces: the ones of its window, none, or, under a trigger of the
    user's own, whatever that trigger makes it replace (then its class name, so that a change of the class
    differs)."""
    if description["window"] is None:
        return "nothing, without windows"
    trigger = description["trigger"]
    while trigger is not None and trigger["class"] == "ProcessingTimeoutTrigger":
        trigger = trigger["trigger"]
    if trigger is None or trigger["class"] in _ACCUMULATING:
        return "that of the window"
    return "nothing, when purging" if trigger["class"] == "PurgingTrigger" else str(trigger["class"])


def _is_growth(item: Difference, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether a change of `select` or `output` adds and removes results, leaving the others as they are."""
    if item.path == "output":
        return None not in (item.before, item.after) and not _columns_of_another_type(item.before, item.after)
    if item.path.startswith(("derive.", "source")):
        setting, columns = _setting_and_columns(item)
        comes_or_goes = setting != "derive" or None in (item.before, item.after)
        return comes_or_goes and columns.isdisjoint(_columns_read_by_both(item, before, after))
    # Elements that an evictor keeps carry what the results of their day read; so do the lost contents of
    # `flink_exact`.
    keeps_other_contents = before["evictor"] is not None or before["flink_exact"]
    return (
        item.path.count(".") == 1
        and None in (item.before, item.after)
        and bool(before["select"] and after["select"])
        and not keeps_other_contents
    )


def _setting_and_columns(item: Difference) -> tuple[str, set[str]]:
    """("derive", "lacks" or "rename"; the columns that a change of it makes others)."""
    setting, _, name = _SETTING_OF_SOURCE.sub("", item.path).partition(".")
    if setting == "lacks":
        return setting, set(item.before) ^ set(item.after)
    return setting, {name} if setting == "derive" else {item.before or name, item.after or name}


def _columns_read_by_both(
    item: Difference, before: Mapping[str, Any], after: Mapping[str, Any]
) -> frozenset[str]:
    """The columns that are read before and after a change of the pipeline's or a source's derived columns,
    under the source's names; under the common ones where it is a change of what the common ones are.
    """
    uses = columns_in_use(before), columns_in_use(after)
    match = _SETTING_OF_SOURCE.match(item.path)
    if match is None or not item.path[match.end() :].startswith("derive."):
        return uses[0].common & uses[1].common
    titles = [_title(source) for source in described_sources(after)]
    place = 0 if match["title"] is None else titles.index(match["title"])
    return uses[0].of_sources[place] & uses[1].of_sources[place]


def _columns_of_another_type(before: str, after: str) -> list[str]:
    types = dict(parse_columns("output", "output", before))
    return [name for name, kind in parse_columns("output", "output", after) if types.get(name, kind) != kind]


def added_results(before: Mapping[str, Any], after: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(after["select"]) - frozenset(before.get("select", {}))


def as_declared(pipeline: Pipeline, recorded: Mapping[str, Any]) -> Pipeline:
    """`pipeline` with the results, derived columns and condition of a recorded description, and the columns
    that its sources derived and shared. Expectations and what is published, which may name other results,
    are left out: a replay asks none.
    """
    today = pipeline.describe()["select"]
    # Today's, where it was declared so then: a function of the user's can't be made of its description.
    select = {
        name: pipeline.select[name] if today.get(name) == values else aggregate_of(values)
        for name, values in _in_order_of(pipeline.select, recorded["select"])
    }
    derive, sources = dict(_in_order_of(pipeline.derive, recorded.get("derive", {}))), pipeline.sources
    recorded_sources = described_sources(recorded)
    if len(sources) == len(recorded_sources):
        sources = tuple(map(_source_as_declared, sources, recorded_sources))
    nothing_published: dict[str, Any] = {"results": {}, "hidden": (), "having": None, "expect": ()}
    declared_then = {"source": sources, "select": select, "where": recorded["where"], "derive": derive}
    return replace(pipeline, **declared_then, **nothing_published)


def _source_as_declared(source: Source, recorded: Mapping[str, Any]) -> Source:
    return replace(
        source,
        derive=dict(_in_order_of(source.derive, recorded.get("derive", {}))),
        lacks=recorded.get("lacks", ()),
        rename=recorded.get("rename", {}),
    )


def _in_order_of(names: Iterable[str], recorded: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The recorded items, whose order is lost, in today's order; those that are gone come last."""
    return ((name, recorded[name]) for name in dict.fromkeys((*names, *recorded)) if name in recorded)


def check_settings(
    pipeline: Pipeline,
    before: Mapping[str, Any] | None,
    seq: int | str,
    from_ms: int,
    start_ms: int | None = None,
) -> list[Difference]:
    """The changed settings that a slice follows which continues the parked state of run `seq`.

    `before` are the declarations of that run (None: not recorded), `from_ms` is the start of the slice,
    `start_ms` the start of the lineage (None: as the pipeline declares it).

    Raises:
        SettingsChanged: with every difference that can't be followed, and the ways out.
    """
    if before is None:
        raise SettingsChanged(
            f"{pipeline.name}: run {seq} was declared otherwise and has not recorded how, so whether its "
            "parked state suits today's "
            f"declarations can't be told. {_ways_out(pipeline, start_ms)}",
            pipeline=pipeline.name,
            differences=[],
        )
    changed_settings = differences(before, pipeline.describe())
    refused_changes = [item for item in changed_settings if item.kind in ("refused", "lasting")]
    if refused_changes:
        raise SettingsChanged(
            f"{pipeline.name}: these settings can't change while what run {seq} has parked is carried on:"
            f"{_one_a_line(refused_changes)}\n{_ways_out(pipeline, start_ms, refused_changes)}",
            pipeline=pipeline.name,
            differences=refused_changes,
        )
    tick_changes = [item for item in changed_settings if item.kind == "at a tick boundary"]
    if any(
        not interval or from_ms % interval for item in tick_changes for interval in (item.before, item.after)
    ):
        raise SettingsChanged(
            f"{pipeline.name}: the watermark interval can change only where a tick of both lengths ends, and "
            f"{iso(from_ms)} is no such moment:{_one_a_line(tick_changes)}\nUndo the change, run up to a "
            f"common boundary with `slackwater run {pipeline.name} --to TIME`, and change it then.",
            pipeline=pipeline.name,
            differences=tick_changes,
        )
    return [item for item in changed_settings if item.kind != "free"]


def check_lasting(pipeline: Pipeline, before: Mapping[str, Any] | None, seq: int | str) -> None:
    """Refuse changes that a lineage can't take even where it begins once more. See `check_settings`."""
    lasting_changes = _changes_of(pipeline, before, "lasting")
    if lasting_changes:
        raise SettingsChanged(
            f"{pipeline.name}: these settings can't change while the lineage lasts; run {seq} was declared "
            f"otherwise:{_one_a_line(lasting_changes)}\n"
            f"{_ways_out(pipeline, None, lasting_changes)}",
            pipeline=pipeline.name,
            differences=lasting_changes,
        )


def check_rules(pipeline: Pipeline, before: Mapping[str, Any] | None, seq: int | str) -> None:
    """Refuse to make run `seq` live where settings have changed on which its snapshot and its panes rest.
    Arguments and errors as for `check_settings`.
    """
    refused_changes = _changes_of(pipeline, before, "refused", "lasting")
    if refused_changes:
        raise SettingsChanged(
            f"{pipeline.name}: run {seq} was declared otherwise, and what it left can't be made live by "
            f"today's rules:{_one_a_line(refused_changes)}\nDeclare these settings as they were then, and "
            "run the command again; nothing was changed.",
            pipeline=pipeline.name,
            differences=refused_changes,
        )


def _changes_of(pipeline: Pipeline, before: Mapping[str, Any] | None, *kinds: Kind) -> list[Difference]:
    today = pipeline.describe()
    return [item for item in differences(before or today, today) if item.kind in kinds]


def _ways_out(pipeline: Pipeline, start_ms: int | None, refused_changes: Sequence[Difference] = ()) -> str:
    restating = (
        ""
        if any(item.kind == "lasting" for item in refused_changes)
        else "or restate the lineage from its start, where nothing is parked: `slackwater backfill "
        f"{pipeline.name} --from {iso(pipeline.start_ms if start_ms is None else start_ms)} --to END`; "
    )
    return f"Undo the change; {restating}or {new_lineage(pipeline.name)}."


def _one_a_line(changes: list[Difference]) -> str:
    return "".join(f"\n  {change}" for change in changes)


def _defaults() -> dict[str, Any]:
    made_defaults = {
        item.name: item.default_factory()
        for item in fields(Pipeline)
        if item.init and item.default_factory is not MISSING
    }
    plain_defaults = {
        item.name: item.default for item in fields(Pipeline) if item.init and item.default is not MISSING
    }
    return {name: plain_value(value) for name, value in {**made_defaults, **plain_defaults}.items()}


def _with_defaults(description: Mapping[str, Any]) -> dict[str, Any]:
    """A description with the defaults of what it lacks, also of its sources."""
    complete: dict[str, Any] = {**_defaults(), **description}
    no_columns: dict[str, Any] = {"derive": {}, "rename": {}, "lacks": []}
    sources = [{**no_columns, **source} for source in described_sources(description)]
    return {**complete, "source": sources if len(sources) > 1 else sources[0]}


def _title(source: Mapping[str, Any]) -> str:
    """The name of one of several sources, as `Source.title` has it."""
    return str(source.get("name") or source["table"].rstrip("/").rpartition("/")[2])


def _differing(path: str, before: Any, after: Any) -> Iterator[tuple[str, Any, Any]]:
    """(path, before, after) wherever two plain values differ. Objects of one class are compared field by
    field, lists of the same sources source by source, all other values as a whole.
    """
    if before == after:
        return
    if path == "source" and isinstance(before, list) and isinstance(after, list):
        titles = [_title(source) for source in after]
        if titles == [_title(source) for source in before]:
            for title, one, other in zip(titles, before, after, strict=True):
                yield from _differing(f"source[{title}]", one, other)
            return
    if (
        isinstance(before, Mapping)
        and isinstance(after, Mapping)
        and before.get("class") == after.get("class")
        and not _is_duration(after)
    ):
        for name in sorted(before.keys() | after.keys()):
            yield from _differing(f"{path}.{name}" if path else name, before.get(name), after.get(name))
    else:
        yield path, before, after


def _kind(path: str) -> Kind:
    path = _SETTING_OF_SOURCE.sub("source.", path)
    prefixes = [prefix for prefix in RULES if path == prefix or path.startswith((f"{prefix}.", f"{prefix}["))]
    return RULES[max(prefixes, key=len)] if prefixes else "refused"


def _is_bound(item: Difference) -> bool:
    return item.path == "watermarks.kind" and {item.before, item.after} == _BOUNDED_STRATEGIES


def _is_duration(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == {"microseconds"}


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if _is_duration(value):
        return exact_duration_text(timedelta(microseconds=value["microseconds"]))
    if isinstance(value, Mapping) and value.get("class") == "Aggregate":
        column = [str(value["column"])] if value.get("column") else []
        settings = [f"{name}={value[name]}" for name in _AGGREGATE_SETTINGS if value.get(name) is not None]
        return f"{value['kind']}({', '.join(column + settings)})"
    if isinstance(value, Mapping) and "class" in value:
        arguments = (f"{name}={_shown(item)}" for name, item in value.items() if name != "class")
        return f"{value['class']}({', '.join(arguments)})"
    return f"[{', '.join(map(_shown, value))}]" if isinstance(value, list) else str(value)
