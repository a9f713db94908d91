"""The variants: each fixture is one axis, and `start` makes an operator of the variant at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slackwater.windowing import KeyedProcessFunction, OrderMode, Trigger, WindowAssigner
from slackwater.windowing.key_types import STRING
from slackwater.windowing.runtime.window_operator_builder import WindowOperatorBuilder
from tests.contracts.backends import VARIANTS, Variant
from tests.contracts.domains import DOMAINS, Domain
from tests.contracts.harness import WindowHarness
from tests.contracts.process_harness import ProcessHarness
from tests.contracts.scripted import Contents, KeepAll
from tests.contracts.trigger_harness import TriggerHarness

Start = Callable[..., WindowHarness]
Ask = Callable[[Trigger], TriggerHarness]
Run = Callable[..., ProcessHarness]


@pytest.fixture(
    params=[
        pytest.param(variant, id=variant.name, marks=[pytest.mark.slow] * variant.kind.is_slow)
        for variant in VARIANTS
    ]
)
def variant(request: pytest.FixtureRequest) -> Variant:
    """Where state and timers live, and which order they have."""
    return request.param


@pytest.fixture
def order_mode(variant: Variant) -> OrderMode:
    return variant.order_mode


@pytest.fixture(params=DOMAINS, ids=lambda domain: domain.name)
def domain(request: pytest.FixtureRequest) -> Domain:
    return request.param


@pytest.fixture(params=["regular", "evicting"])
def evicts(request: pytest.FixtureRequest) -> bool:
    """Whether the operator is the evicting one, with an evictor that keeps everything."""
    return request.param == "evicting"


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which each operator makes one of its own, if it needs one."""
    return tmp_path_factory.mktemp("operators")


@pytest.fixture
def start(variant: Variant, evicts: bool, folder: Path) -> Iterator[Start]:
    """(assigner, choices) → an opened operator in its harness, of every variant in turn."""
    harnesses: list[WindowHarness] = []

    def start_operator(
        assigner: WindowAssigner,
        *,
        trigger: Any = None,
        function: Any = None,
        lateness: int = 0,
        late_output: bool = False,
        evictor: Any = None,
        key_type: Any = STRING,
        finish: Callable[[WindowOperatorBuilder], Any] | None = None,
        flink_exact: bool = False,
        on_error: str = "fail",
    ) -> WindowHarness:
        """`finish` ends the builder; without it `function` (Contents unless named) processes the elements."""
        builder = WindowOperatorBuilder(key_type, assigner).allowed_lateness_ms(lateness)
        if trigger is not None:
            builder.trigger(trigger)
        if evictor is not None or evicts:
            builder.evictor(evictor or KeepAll())
        if late_output:
            builder.side_output_late_data()
        if flink_exact:
            builder.flink_exact()
        config = finish(builder) if finish is not None else builder.process(function or Contents())
        harness = WindowHarness(config, variant, folder, on_error)
        harnesses.append(harness)
        return harness

    yield start_operator
    for harness in harnesses:
        harness.close()


@pytest.fixture
def ask(variant: Variant, folder: Path) -> Iterator[Ask]:
    """A trigger → its harness, of every variant in turn."""
    harnesses: list[TriggerHarness] = []

    def make(trigger: Trigger) -> TriggerHarness:
        harnesses.append(TriggerHarness(trigger, variant, folder))
        return harnesses[-1]

    yield make
    for harness in harnesses:
        harness.close()


@pytest.fixture
def run(variant: Variant, folder: Path) -> Iterator[Run]:
    """A KeyedProcessFunction → its opened operator in a harness, of every variant in turn."""
    harnesses: list[ProcessHarness] = []

    def make(function: KeyedProcessFunction, **choices: Any) -> ProcessHarness:
        harnesses.append(ProcessHarness(function, variant, folder, **choices))
        return harnesses[-1]

    yield make
    for harness in harnesses:
        harness.close()
