"""The code hash of a pipeline: edits of files, each with the pipelines whose hash it changes."""

import subprocess
import sys
from pathlib import Path

import pytest

from slackwater.pipelines.code import code_hash, imported_files
from slackwater.pipelines.registry import load

FILE = '''"""Two pipelines of one file."""

from dataclasses import replace
from datetime import timedelta

import beside
from apart import two
from slackwater import DeltaSource, Pipeline, TumblingEventTimeWindows, WatermarkStrategy, agg


def parity(x):
    from lately import odd

    return odd(x)


one = Pipeline(
    name="one",
    source=DeltaSource(beside.TABLE, event_time="e", arrival_time="a"),
    key_by="k",
    start="2013-01-01",
    watermarks=WatermarkStrategy.monotonous(),
    window=TumblingEventTimeWindows.of(timedelta(hours=1)),
    select={"n": agg.count()},
)
three = replace(two, name="three")
'''
APART = """from slackwater import DeltaSource, Pipeline, TumblingEventTimeWindows, WatermarkStrategy, agg
from datetime import timedelta

two = Pipeline(
    name="two",
    source=DeltaSource("sources/two", event_time="e", arrival_time="a"),
    key_by="k",
    start="2013-01-01",
    watermarks=WatermarkStrategy.monotonous(),
    window=TumblingEventTimeWindows.of(timedelta(hours=1)),
    select={"n": agg.count()},
)
"""
FILES = {
    "pipelines": FILE,
    "apart": APART,
    "beside": "from deeper import NAME\n\nTABLE = 'sources/' + NAME\n",
    "deeper": "NAME = 'own'\n",
    "lately": "def odd(x):\n    return x % 2\n",
    "stray": "print('nobody imports this')\n",
}


pytestmark = pytest.mark.usefixtures("modules_as_before")


def hashes(folder: Path, **files: str) -> dict[str, str]:
    """The code hash of each pipeline of `pipelines.py` among these files."""
    folder.mkdir()
    for name in {*FILES, *files}:
        sys.modules.pop(name, None)
        (folder / f"{name}.py").write_text(files.get(name, FILES.get(name, "")))
    sys.path[:] = [entry for entry in sys.path if "pytest-" not in entry]
    registry = load(str(folder / "pipelines.py"), examples=False)
    return {name: registry.code_hash(name) for name in registry}


@pytest.mark.parametrize(
    ("file", "text", "replacement", "changed_names"),
    [
        ("pipelines", "hours=1", "hours=2", "one three"),
        ("pipelines", "Two pipelines", "A pair of pipelines", "one three"),
        ("pipelines", "\nthree =", "\nfour = replace(two, name='four')\nthree =", "one three"),
        ("apart", "hours=1", "hours=2", "one two three"),
        ("beside", "'sources/'", "'tables/'", "one three"),
        ("deeper", "'own'", "'other'", "one three"),
        ("lately", "% 2", "% 3", "one three"),
        ("stray", "nobody", "no one", ""),
    ],
)
def test_an_edit_changes_the_hash_of_the_pipelines_whose_files_import_it(
    tmp_path: Path, file: str, text: str, replacement: str, changed_names: str
) -> None:
    assert text in FILES[file], text
    before = hashes(tmp_path / "before")
    after = hashes(tmp_path / "after", **{file: FILES[file].replace(text, replacement, 1)})
    assert {name for name in before if before[name] != after[name]} == set(changed_names.split())


def test_a_pipeline_of_the_same_folder_is_edited_renamed_or_imported_without_a_change(tmp_path: Path) -> None:
    imported = hashes(tmp_path / "imported", pipelines="from apart import two\n")["two"]
    assert hashes(tmp_path / "derived_from")["two"] == imported
    renamed = FILE.replace('name="one"', 'name="uno"').replace("one =", "uno =")
    assert hashes(tmp_path / "renamed", pipelines=renamed)["two"] == imported


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import a.b.c", "a/__init__ a/b/__init__ a/b/c"),
        ("from a.b import c", "a/__init__ a/b/__init__ a/b/c"),
        ("from a import other", "a/__init__ a/other"),
        ("from a import b, a_name", "a/__init__ a/b/__init__"),
        ("from a import *", "a/__init__"),
        ("def f():\n    if f:\n        import single", "single"),
        ("try:\n    pass\nexcept Exception:\n    import single", "single"),
        ("try:\n    pass\nfinally:\n    with open(0):\n        import single", "single"),
        ("for x in ():\n    pass\nelse:\n    class A:\n        import single", "single"),
        ("match 1:\n    case 1:\n        import single", "single"),
        ("from . import sibling", "sibling"),
        ("import single, single as x, os.path", "single"),
        (
            "import relative.up.here",
            "relative/__init__ relative/up/__init__ relative/up/here relative/side single",
        ),
        ("import circle", "circle circle_too"),
        ("not python at all", ""),
    ],
)
def test_imports_lead_from_file_to_file(tmp_path: Path, text: str, expected: str) -> None:
    texts = {
        "main": text,
        "single": "X = 1",
        "sibling": "X = 1",
        "a/__init__": "",
        "a/other": "",
        "a/b/__init__": "",
        "a/b/c": "",
        "relative/__init__": "",
        "relative/side": "import single",
        "relative/up/__init__": "",
        "relative/up/here": "from ..side import X\nfrom ... import too_far",
        "circle": "import circle_too",
        "circle_too": "import circle",
    }
    files = {}
    for name, source in texts.items():
        files[f"{name}.py"] = path = tmp_path / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    assert set(imported_files(files, "main.py")) == {f"{name}.py" for name in ["main", *expected.split()]}


def test_a_module_of_a_package_runs_the_packages_above_it(tmp_path: Path) -> None:
    files = {}
    for name in ("pipes/__init__.py", "pipes/mine.py", "pipes/other.py"):
        files[name] = path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    assert set(imported_files(files, "pipes/mine.py")) == {"pipes/__init__.py", "pipes/mine.py"}


def test_names_of_files_their_text_and_the_version_all_count(tmp_path: Path) -> None:
    for name, text in (("a", "X = 1"), ("b", "X = 1"), ("c", "X = 2")):
        (tmp_path / name).write_text(text)
    a, b, c = (tmp_path / name for name in "abc")
    assert code_hash("1", {"m.py": a}) == code_hash("1", {"m.py": b})
    others = [
        code_hash("1", {"m.py": a}),
        code_hash("2", {"m.py": a}),
        code_hash("1", {"n.py": a}),
        code_hash("1", {"m.py": c}),
        code_hash("1", {"m.py": a, "n.py": a}),
    ]
    assert len(set(others)) == len(others)
    assert code_hash("1", {"m.py": a, "n.py": c}) == code_hash("1", {"n.py": c, "m.py": a})


def test_a_users_own_package_of_the_name_of_a_folder_of_ours_is_imported(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "__init__.py").write_text("from slackwater.examples.departures import departures\n")
    (tmp_path / "mine.py").write_text(
        "from dataclasses import replace\nfrom jobs import departures\nmine = replace(departures, "
        "name='mine')\n"
    )
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from slackwater.pipelines.registry import load\n"
        f"print('mine' in load({str(tmp_path / 'mine.py')!r}))"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert process.stdout == "True\n", process.stderr
