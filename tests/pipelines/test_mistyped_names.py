"""A mistyped name of an argument, a function or a class is refused with the name that was meant."""

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

import slackwater
from slackwater import agg, expect
from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.registry import PipelinesFileError, load

DECLARATIONS = [
    slackwater.Pipeline,
    slackwater.DeltaSource,
    slackwater.ParquetSource,
    slackwater.Health,
    slackwater.SqlSink,
    slackwater.RedisSink,
    slackwater.ChangeFeedSink,
    slackwater.FunctionSink,
]


@pytest.mark.parametrize("declaration", DECLARATIONS, ids=lambda declaration: declaration.__name__)
def test_an_argument_that_no_declaration_has_is_refused_with_the_nearest(declaration: type) -> None:
    names = list(inspect.signature(declaration).parameters)
    for name in (names[0], names[-1]):
        with pytest.raises(PipelineError, match=f"there is no argument {name}x=; did you mean {name}=\\?"):
            declaration(**{f"{name}x": 1})
    with pytest.raises(PipelineError, match=f"it is one of {names[0]}=, {names[1]}="):
        declaration(qqqqqqqq=1)


@pytest.mark.parametrize(
    ("get", "text"),
    [
        (lambda: agg.max_byy, r"there is no agg\.max_byy; did you mean agg\.max"),
        (lambda: agg.meen, r"there is no agg\.meen; did you mean agg\.mean\?"),
        (lambda: agg.qqqqq, r"it is one of agg\.count, agg\.sum, "),
        (lambda: expect.betwen, r"there is no expect\.betwen; did you mean expect\.between\?"),
        (lambda: slackwater.TumblingWindows, "no attribute 'TumblingWindows'; did you mean Tumbling"),
        (lambda: slackwater.qqqqq, "it has Aggregate, "),
    ],
)
def test_a_name_that_no_module_has_is_refused_with_the_nearest(get: Callable[[], object], text: str) -> None:
    with pytest.raises(AttributeError, match=text):
        get()


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("from slackwater import SlidingEventTimeWindow", "no SlidingEventTimeWindow; did you mean Sliding"),
        ("from slackwater import qqqqq", r"slackwater has no qqqqq\. Correct it"),
        ("from slackwater import agg; agg.maxx", r"did you mean agg\.max\? Correct it"),
        ("from slackwater import Pipeline; Pipeline(wheer='x')", r"did you mean where=\?"),
    ],
)
def test_a_file_of_pipelines_says_what_was_meant(line: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "mistyped.py"
    file.write_text(line + "\n")
    with pytest.raises((PipelinesFileError, PipelineError), match=text):
        load(str(file))
