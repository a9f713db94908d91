"""What a pipeline's code hash covers: edits of files, each with the pipelines whose hash it changes."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.pipelines.code import PipelineCode
from slackwater.pipelines.reach import text_reached
from slackwater.pipelines.registry import load, product_version

FILE = '''"""Two pipelines, and what they have in common."""

from dataclasses import replace
from datetime import timedelta

import beside
from apart import base_of
from slackwater import AggregateFunction, DeltaSource, Pipeline, TumblingEventTimeWindows
from slackwater import WatermarkStrategy, agg

HOUR = timedelta(hours=1)
LIMITS = {"one": 3, "two": 4}


# Counts what is odd.
class Odd(AggregateFunction):
    def create_accumulator(self):
        return [0]

    def add(self, element, accumulator):
        accumulator[0] += odd(element)
        return accumulator

    def get_result(self, accumulator):
        return accumulator[0]

    def merge(self, a, b):
        return [a[0] + b[0]]


def odd(element):
    from lately import parity

    return parity(element.x)


def common(name):
    return {"name": name, "watermarks": WatermarkStrategy.monotonous(), "key_by": "k", "start": "2013-01-01"}


one = Pipeline(
    **common("one"),
    source=DeltaSource(beside.TABLE, event_time="e", arrival_time="a"),
    window=TumblingEventTimeWindows.of(HOUR),
    aggregate=Odd(),
    output="n long",
    columns=["x"],
)
two = Pipeline(
    **common("two"),
    source=DeltaSource(base_of("two"), event_time="e", arrival_time="a"),
    window=TumblingEventTimeWindows.of(timedelta(hours=2)),
    select={"n": agg.count(), "total": agg.sum("x", where=f"x < {LIMITS['two']}")},
)
three = replace(two, name="three")

if __name__ == "__main__":
    print(one)
'''
FILES = {
    "pipelines": FILE,
    "beside": "from deeper import NAME\n\nTABLE = 'sources/' + NAME\n",
    "deeper": "NAME = 'own'\n",
    "apart": "def base_of(name):\n    return 'sources/' + name\n",
    "lately": "def parity(x):\n    return x % 2\n",
    "stray": "print('nobody imports this')\n",
}


@pytest.fixture(autouse=True)
def _path_and_modules_stay_as_they_were() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def codes(folder: Path, **files: str) -> dict[str, PipelineCode]:
    """The code of each pipeline of `pipelines.py` among these files."""
    folder.mkdir()
    for name in {*FILES, *files}:
        sys.modules.pop(name, None)
        (folder / f"{name}.py").write_text(files.get(name, FILES.get(name, "")))
    sys.path[:] = [entry for entry in sys.path if "pytest-" not in entry]
    registry = load(str(folder / "pipelines.py"), examples=False)
    return {name: registry.code(name) for name in registry}


def changed(tmp_path: Path, file: str, text: str, instead: str) -> set[str]:
    """The pipelines whose hash changes where `instead` stands for `text` in a file."""
    assert text in FILES[file], text
    before = codes(tmp_path / "before")
    after = codes(tmp_path / "after", **{file: FILES[file].replace(text, instead, 1)})
    return {name for name in before if name not in after or before[name].hash != after[name].hash}


@pytest.mark.parametrize(
    ("file", "text", "instead", "expected"),
    [
        ("pipelines", "hours=2", "hours=3", "two three"),
        ("pipelines", 'output="n long"', 'output="m long"', "one"),
        ("pipelines", "hours=1", "minutes=60", "one"),
        ("pipelines", '"start": "2013-01-01"', '"start": "2013-01-02"', "one two three"),
        ("pipelines", "+= odd(", "+= 2 * odd(", "one"),
        ("pipelines", "parity(element.x)", "1 - parity(element.x)", "one"),
        ("pipelines", '"two": 4', '"two": 5', "two three"),
        ("pipelines", 'name="three"', 'name="three", slice=HOUR', "three"),
        ("pipelines", "# Counts what is odd.", "# Counts odd ones.", ""),
        ("pipelines", "import WatermarkStrategy, agg", "import (\n    agg, expect, WatermarkStrategy)", ""),
        ("pipelines", "print(one)", "print(two)", ""),
        ("pipelines", "\nthree =", "\nfour = replace(two, name='four', slice=HOUR)\nthree =", ""),
        ("pipelines", "from dataclasses import replace", "from dataclasses import field, replace", ""),
        # What may act on anything counts for all.
        ("pipelines", "\nthree = ", "\nLIMITS['one'] = 7\nthree = ", "one two three"),
        ("pipelines", "\nthree = ", "\nprint('loaded')\nthree = ", "one two three"),
        ("pipelines", "\nthree = ", "\nHOUR += HOUR\nthree = ", "one two three"),
        ("pipelines", "\nthree = ", "\nLIMITS.update(one=7)\nthree = ", "one two three"),
        ("pipelines", "\nthree = ", "\nglobals()['LIMITS'] = {}\nthree = ", "one two three"),
        ("pipelines", "import beside\n", "import beside\nfrom beside import *\n", "one two three"),
        ("pipelines", "return {", 'LIMITS["two"] = 9\n    return {', "one two three"),
        # Files beside it.
        ("beside", "'sources/'", "'tables/'", "one"),
        ("deeper", "'own'", "'other'", "one"),
        ("apart", "'sources/'", "'tables/'", "two three"),
        ("lately", "% 2", "% 3", "one"),
        ("stray", "nobody", "no one", ""),
        ("lately", "def parity", "import apart\napart.LIMIT = 3\n\n\ndef parity", "one two three"),
        ("deeper", "NAME", "import apart\napart.base_of = str\nNAME", "one two three"),
    ],
)  # fmt: skip
def test_an_edit_changes_the_hash_of_the_pipelines_that_rest_on_it(
    tmp_path: Path, file: str, text: str, instead: str, expected: str
) -> None:
    assert changed(tmp_path, file, text, instead) == set(expected.split())


def test_the_hash_of_earlier_versions_of_all_files_is_recognised(tmp_path: Path) -> None:
    paths = {}
    all_codes = codes(tmp_path / "files")
    for name in FILES:
        paths[f"{name}.py"] = tmp_path / "files" / f"{name}.py"
    recorded = PipelineCode.of(paths, product_version()).hash
    assert all(code.recognises(recorded) and code.hash != recorded for code in all_codes.values())
    assert len({code.hash for code in all_codes.values()}) == 3


@pytest.mark.parametrize(
    "acting",
    [
        "def register(p):\n    KEPT.append(p)\n    return p\nKEPT = []\ntwo = register(two)",
        "def register(p, kept=[]):\n    kept += [p]\n    return p\nlast = register(1)",
        "class Loud:\n    def __init__(self, x):\n        x['two'] = 1\nloud = Loud(LIMITS)",
        "class Base:\n    def __init_subclass__(cls):\n        LIMITS.clear()\nclass Sub(Base):\n    pass",
        "class Meta(type): pass\nclass Sub(metaclass=Meta):\n    pass",
        "def mark(c):\n    global HOUR\n    HOUR = None\n    return c\n@mark\nclass Sub:\n    pass",
        "listed = [LIMITS.pop(key) for key in list(LIMITS)]",
        "listed = [agg.clear() for agg in [LIMITS]]",
        "listed = sorted(LIMITS, key=lambda key: LIMITS.clear())",
        "for LIMITS['one'] in (1, 2):\n    pass",
        "with open(__file__) as HOUR:\n    pass",
        "del LIMITS['one']",
        "try:\n    LIMITS['one'] = 1\nexcept KeyError:\n    pass",
        "if HOUR:\n    LIMITS.clear()",
        "def f(agg):\n    agg.clear()\nf(LIMITS)",
        "def g(n):\n    return g(n - 1) if n else LIMITS.clear()\ng(2)",
        "x = (HOUR := {})",
        "HOUR, LIMITS['one'] = 1, 2",
        "import functools\nfunctools.reduce(lambda a, b: LIMITS.clear(), [1, 2])",
        "from slackwater.engine.aggregates import register\nregister('none', None)",
    ],
)
def test_statements_that_may_act_on_what_others_use_count_for_every_pipeline(acting: str) -> None:
    text = FILE.replace("\nthree = replace(two", f"\n{acting}\nthree = replace(two")
    files = {f"{name}.py": source.encode() for name, source in {**FILES, "pipelines": text}.items()}
    covered = text_reached(files, "pipelines.py", ["one"])
    assert covered is None or acting.splitlines()[-1] in covered["pipelines.py"].decode()


@pytest.mark.parametrize(
    "inert",
    [
        "def helper(x):\n    y = dict(x)\n    return y.get('one')\nused = helper(LIMITS)",
        "@dataclass(frozen=True)\nclass Point:\n    x: int = field(default=0)\npoint = Point(3)",
        "class Kept:\n    def __init__(self, n):\n        self.n = n\n\n    def add(self, m):\n"
        "        self.n += m\nkept = Kept(3)",
        "if HOUR > timedelta(0):\n    LONG = True\nelse:\n    LONG = False",
        "named = {name: name.upper() for name in sorted(LIMITS)}",
        "also = tuple(common(name) for name in ('x', 'y'))",
        "tested = base_of('two')",
        "log = logging.getLogger('mine')",
    ],
)
def test_statements_that_only_make_values_count_for_those_who_use_them(inert: str) -> None:
    text = FILE.replace("\nthree = replace(two", f"\n{inert}\nthree = replace(two")
    text = text.replace(
        "import beside\n", "import beside\nimport logging\nfrom dataclasses import dataclass, field\n"
    )
    files = {f"{name}.py": source.encode() for name, source in {**FILES, "pipelines": text}.items()}
    covered = text_reached(files, "pipelines.py", ["one"])
    assert covered is not None and inert.splitlines()[-1] not in covered["pipelines.py"].decode()


def test_the_function_of_punctuated_watermarks_counts(tmp_path: Path) -> None:
    text = FILE.replace(
        "three = replace(two, ",
        "def end_of_batch(row, timestamp):\n    return timestamp if row.x > 5 else None\n\n\n"
        "three = replace(two, watermarks=WatermarkStrategy.punctuated(end_of_batch), ",
    )
    before = codes(tmp_path / "before", pipelines=text)
    after = codes(tmp_path / "after", pipelines=text.replace("row.x > 5", "row.x > 6"))
    assert {name for name in before if before[name].hash != after[name].hash} == {"three"}
