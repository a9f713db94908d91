"""Which declarations may change between two runs of one lineage, and what a change means for what is parked.

Compares two declarations as plain values, the recorded one of the parent and today's. Touches no table.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from datetime import timedelta
from typing import Any, Literal

from slackwater.jobs.errors import UsageError
from slackwater.jobs.pipelines import Pipeline
from slackwater.jobs.pipelines.canonical import plain_value
from slackwater.jobs.protocol.staging.slices import iso

Kind = Literal["free", "converted", "at a tick boundary", "refused", "lasting"]

# What a change of each setting of `Pipeline` means; a longer path counts before a shorter one. Whatever is
# not here is refused. What is lasting can't even change where a lineage is restated from its start: rows of
# `published` and `corrections` are told apart by it. Of the settings in `_TELLING_ROWS_APART` that holds
# where the change makes firings replace each other that did not, or no longer do.
RULES: Mapping[str, Kind] = {
    **dict.fromkeys(("expect", "start", "schedule", "slice", "max_catch_up", "settle"), "free"),
    **dict.fromkeys(("approve_warnings", "keep_snapshots", "keep_snapshot_every", "keep_history"), "free"),
    **dict.fromkeys(("allowed_lateness", "max_ahead", "stragglers"), "converted"),
    # Nothing that is parked changes by these, but what a run makes of its elements does.
    **dict.fromkeys(("late_refires", "on_error", "pickled_state"), "converted"),
    **dict.fromkeys(("watermarks.out_of_orderness_ms", "watermarks.idle_timeout_ms"), "converted"),
    "watermarks.interval_ms": "at a tick boundary",
    "max_parallelism": "lasting",
    **dict.fromkeys(("name", "source", "where", "watermarks", "key_by"), "refused"),
    **dict.fromkeys(("window", "trigger", "evictor", "order_mode", "flink_exact"), "refused"),
    **dict.fromkeys(
        ("select", "process", "reduce", "aggregate", "output", "side_outputs", "columns", "records"),
        "refused",
    ),
}
_TELLING_ROWS_APART = ("window", "trigger", "process")
# Triggers that leave contents alone. One that is not here, and no wrapper of them, may purge.
_ACCUMULATING = {
    *(
        "EventTimeTrigger",
        "ProcessingTimeTrigger",
        "ContinuousEventTimeTrigger",
        "ContinuousProcessingTimeTrigger",
    ),
    *("CountTrigger", "DeltaTrigger", "NeverTrigger", "EndOfStreamTrigger"),
}
# Of these strategies one turns into the other by a change of the bound alone.
_BOUNDED = {"bounded_out_of_orderness", "monotonous"}


class SettingsChanged(UsageError):
    """The declarations differ from those of the parent run in a way that what is parked can't follow. Facts:
    pipeline, differences.
    """


@dataclass(frozen=True)
class Difference:
    """One declaration that differs: its path, e.g. ``window.size_ms``, what it was and what it is, and what
    that means.
    """

    path: str
    before: Any
    after: Any
    kind: Kind

    @property
    def change(self) -> str:
        """``before → after``."""
        return f"{_shown(self.before)} → {_shown(self.after)}"

    def __str__(self) -> str:
        return f"{self.path}: {self.change}"


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """What differs between two descriptions of a pipeline (`Pipeline.describe`), in the order of their paths.

    A setting that an earlier release did not know counts as its default.
    """
    complete_settings = {**_defaults(), **before}
    changed_settings = [
        Difference(path, old, new, _kind(path)) for path, old, new in _differing("", complete_settings, after)
    ]
    if _replacing(complete_settings) != _replacing(after):
        changed_settings = [
            replace(item, kind="lasting") if item.path.split(".")[0] in _TELLING_ROWS_APART else item
            for item in changed_settings
        ]
    return [item for item in changed_settings if not _is_bound(item)]


def _replacing(description: Mapping[str, Any]) -> str:
    """What firings replace in `published`, as far as declarations say it: that of their window, nothing,
    or what a trigger of the user's own makes them."""
    if description["window"] is None:
        return "nothing, without windows"
    trigger = description["trigger"]
    while trigger is not None and trigger["class"] == "ProcessingTimeoutTrigger":
        trigger = trigger["trigger"]
    if trigger is None or trigger["class"] in _ACCUMULATING:
        return "that of the window"
    return "nothing, when purging" if trigger["class"] == "PurgingTrigger" else str(trigger["class"])


def check_settings(
    pipeline: Pipeline,
    before: Mapping[str, Any] | None,
    seq: int | str,
    from_ms: int,
    start_ms: int | None = None,
) -> list[Difference]:
    """What a slice that starts at `from_ms` converts of the state that run `seq`, declared as `before`,
    has parked.

    `before` is None where the run has not recorded its declarations. The lineage begins at `start_ms`, by
    default where the pipeline says.

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
    refused = [item for item in changed_settings if item.kind in ("refused", "lasting")]
    if refused:
        raise SettingsChanged(
            f"{pipeline.name}: these settings can't change while what run {seq} has parked is carried on:"
            f"{_listed(refused)}\n{_ways_out(pipeline, start_ms, refused)}",
            pipeline=pipeline.name,
            differences=refused,
        )
    ticks = [item for item in changed_settings if item.kind == "at a tick boundary"]
    if any(not interval or from_ms % interval for item in ticks for interval in (item.before, item.after)):
        raise SettingsChanged(
            f"{pipeline.name}: the watermark interval can change only where a tick of both lengths ends, and "
            f"{iso(from_ms)} is no such "
            f"moment:{_listed(ticks)}\nUndo the change, run up to a common boundary with `slackwater run "
            f"{pipeline.name} --to TIME`, and "
            "change it then.",
            pipeline=pipeline.name,
            differences=ticks,
        )
    return [item for item in changed_settings if item.kind != "free"]


def check_lasting(pipeline: Pipeline, before: Mapping[str, Any] | None, seq: int | str) -> None:
    """Refuse what can't change while a lineage lasts, although nothing that is parked is carried on;
    arguments as for `check_settings`.

    Raises:
        SettingsChanged: with the differences and the ways out.
    """
    lasting = [
        item
        for item in differences(before or pipeline.describe(), pipeline.describe())
        if item.kind == "lasting"
    ]
    if lasting:
        raise SettingsChanged(
            f"{pipeline.name}: these settings can't change while the lineage lasts; run {seq} was declared "
            f"otherwise:{_listed(lasting)}\n"
            f"{_ways_out(pipeline, None, lasting)}",
            pipeline=pipeline.name,
            differences=lasting,
        )


def check_rules(pipeline: Pipeline, before: Mapping[str, Any] | None, seq: int | str) -> None:
    """Refuse to make live what run `seq` left, where settings have changed that its state and its
    published rows rest on.

    Raises:
        SettingsChanged: with the differences and the ways out.
    """
    refused = [
        item
        for item in differences(before or pipeline.describe(), pipeline.describe())
        if item.kind in ("refused", "lasting")
    ]
    if refused:
        raise SettingsChanged(
            f"{pipeline.name}: run {seq} was declared otherwise, and what it left can't be made live by "
            "today's rules:"
            f"{_listed(refused)}\nDeclare these settings as they were then, and run the command again; "
            "nothing was changed.",
            pipeline=pipeline.name,
            differences=refused,
        )


def _ways_out(pipeline: Pipeline, start_ms: int | None, refused: Sequence[Difference] = ()) -> str:
    anew = (
        ""
        if any(item.kind == "lasting" for item in refused)
        else "or restate the lineage from its start, where nothing is parked: `slackwater backfill "
        f"{pipeline.name} --from {iso(pipeline.start_ms if start_ms is None else start_ms)} --to END`; "
    )
    return f"Undo the change; {anew}or give the pipeline another name (it then starts a lineage of its own)."


def _listed(found: list[Difference]) -> str:
    return "".join(f"\n  {item}" for item in found)


def _defaults() -> dict[str, Any]:
    defaults = {
        item.name: item.default_factory()
        for item in fields(Pipeline)
        if item.init and item.default_factory is not MISSING
    }
    required = {
        item.name: item.default for item in fields(Pipeline) if item.init and item.default is not MISSING
    }
    return {name: plain_value(value) for name, value in {**defaults, **required}.items()}


def _differing(path: str, before: Any, after: Any) -> Iterator[tuple[str, Any, Any]]:
    """Where two plain values differ. Objects of one class are looked into; all else differs as a whole."""
    if before == after:
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
    prefixes = [prefix for prefix in RULES if path == prefix or path.startswith((f"{prefix}.", f"{prefix}["))]
    return RULES[max(prefixes, key=len)] if prefixes else "refused"


def _is_bound(item: Difference) -> bool:
    return item.path == "watermarks.kind" and {item.before, item.after} == _BOUNDED


def _is_duration(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == {"microseconds"}


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if _is_duration(value):
        return str(timedelta(microseconds=value["microseconds"]))
    if isinstance(value, Mapping) and "class" in value:
        arguments = (f"{name}={_shown(item)}" for name, item in value.items() if name != "class")
        return f"{value['class']}({', '.join(arguments)})"
    return f"[{', '.join(map(_shown, value))}]" if isinstance(value, list) else str(value)
