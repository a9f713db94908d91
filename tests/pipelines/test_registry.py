"""The registry finds our examples and a user's own file, with the modules beside it, and lets neither take
the place of what is ours.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from slackwater.examples import EXAMPLES
from slackwater.pipelines import registry
from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.registry import PipelinesFileError, UnknownPipeline, load

DECLARATION = """
from datetime import timedelta
from slackwater import DeltaSource, Pipeline, TumblingEventTimeWindows, WatermarkStrategy, agg
{more}
{name} = Pipeline(
    name="{name}",
    source=DeltaSource("t", event_time="e", arrival_time="a"),
    watermarks=WatermarkStrategy.monotonous(),
    key_by="k",
    window=TumblingEventTimeWindows.of(timedelta(hours=1)),
    select={{"n": agg.count()}},
    start="2013-01-01",
)
"""


pytestmark = pytest.mark.usefixtures("modules_as_before")

OURS = sorted(example.pipeline for example in EXAMPLES.values())


def user_file(folder: Path, name: str = "mine", more: str = "", file: str = "pipelines.py") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / file
    path.write_text(DECLARATION.format(name=name, more=more))
    return path


def test_our_examples_are_always_there() -> None:
    registry = load()
    assert list(registry) == OURS and len(registry) == len(OURS)
    assert registry["departures"].name == "departures"
    assert [path.name for path in registry.sources("departures")] == ["departures.py"]


def test_a_users_file_adds_its_pipelines(tmp_path: Path) -> None:
    registry = load(str(user_file(tmp_path)))
    assert list(registry) == sorted([*OURS, "mine"])
    assert "mine" in registry and "other" not in registry


def test_the_variable_names_a_file_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACKWATER_PIPELINES", str(user_file(tmp_path)))
    assert "mine" in load()
    assert "theirs" in load(str(user_file(tmp_path / "other", "theirs")))


def test_a_module_is_loaded_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user_file(tmp_path, file="my_pipelines.py")
    monkeypatch.syspath_prepend(tmp_path)
    assert "mine" in load("my_pipelines")


def test_an_example_that_a_file_imports_is_no_second_one(tmp_path: Path) -> None:
    assert list(
        load(str(user_file(tmp_path, more="from slackwater.examples.departures import departures")))
    ) == sorted([*OURS, "mine"])


IMPORTS = (
    "from slackwater.examples.departures import departures",
    "from slackwater.examples.departures import *",
    "from slackwater.examples import departures as example\ndepartures = example.departures",
    "from handed_on import departures",
)


@pytest.mark.parametrize("line", IMPORTS)
def test_a_file_that_imports_a_pipeline_is_no_part_of_its_code(tmp_path: Path, line: str) -> None:
    (tmp_path / "handed_on.py").write_text(IMPORTS[0])
    alone = load().code_hash("departures")
    for name in ("mine", "renamed"):
        other = f"{line}\nfrom dataclasses import replace\nstrict = replace(departures, name='{name}_too')"
        registry = load(str(user_file(tmp_path, name, other)))
        assert {name, f"{name}_too"} < set(registry)
        assert registry.code_hash("departures") == alone
        assert [path.name for path in registry.sources("departures")] == ["departures.py"]
        assert registry.code_hash(name) != alone and registry.code_hash(f"{name}_too") != alone


def test_a_pipeline_is_part_of_the_file_that_defines_it_whoever_else_imports_that_file(
    tmp_path: Path,
) -> None:
    user_file(tmp_path, "base", file="team_pipelines.py")
    importing = tmp_path / "all_pipelines.py"
    text = "from dataclasses import replace\nfrom team_pipelines import base\nx = replace(base, name='{}')"
    hashes = []
    for name in ("first", "second"):
        importing.write_text(text.format(name))
        registry = load(str(importing))
        assert [path.name for path in registry.sources("base")] == ["team_pipelines.py"]
        hashes.append((registry.code_hash("base"), registry.code_hash(name)))
    (base, first), (base_again, second) = hashes
    assert base == base_again == load(str(tmp_path / "team_pipelines.py")).code_hash("base")
    assert first != second


def test_two_files_of_one_name_are_two_modules(tmp_path: Path) -> None:
    for folder, name in (("a", "one"), ("b", "two")):
        assert list(load(str(user_file(tmp_path / folder, name)))) == sorted([*OURS, name])


def test_a_file_is_loaded_as_it_reads_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where its size and the time of its change are those of the file that was loaded before."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for name in ("first", "other"):
        file = user_file(tmp_path, name)
        os.utime(file, (0, 0))
        assert name in load(str(file), examples=False)


def test_modules_beside_the_file_can_be_imported(tmp_path: Path) -> None:
    path = user_file(tmp_path, more="from published_hours import HOURS")
    (tmp_path / "published_hours.py").write_text("HOURS = 3")
    registry = load(str(path))
    assert [item.name for item in registry.sources("mine")] == ["pipelines.py", "published_hours.py"]


def test_a_users_own_jobs_or_windowing_beside_it_does_not_take_the_place_of_ours(tmp_path: Path) -> None:
    path = user_file(tmp_path, more="import slackwater.tables.schemas, slackwater.windowing.windows")
    for name in ("jobs", "windowing"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('the wrong package')")
    probe = f"from slackwater.pipelines import registry; print(*registry.load({str(path)!r}))"
    process = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=False, cwd="/"
    )
    assert (process.returncode, process.stdout) == (0, " ".join(sorted([*OURS, "mine"])) + "\n"), (
        process.stderr
    )


class TestWhatExecutorsLack:
    """Probed in a process of its own, where nothing else has been loaded."""

    def probe(self, file_or_module: object, cwd: Path) -> tuple[list[str], list[str]]:
        program = (
            "import json; from slackwater.pipelines import registry as r; "
            f"r.load({str(file_or_module)!r}); "
            "print(json.dumps([[m.__name__[-9:] for m in r.loaded_by_value()], sorted(r.loaded_files())]))"
        )
        process = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=cwd
        )
        assert process.returncode == 0, process.stderr
        by_value, files = json.loads(process.stdout)
        return by_value, files

    def test_a_file_goes_by_value_and_what_lies_beside_it_in_an_archive(self, tmp_path: Path) -> None:
        path = user_file(tmp_path, more="import mine_too.deeper.part")
        (tmp_path / "mine_too" / "deeper").mkdir(parents=True)
        for name in (
            "beside_mine.py",
            "mine_too/__init__.py",
            "mine_too/deeper/__init__.py",
            "mine_too/deeper/part.py",
            "mine_too/text.txt",
        ):
            (tmp_path / name).write_text("")
        (tmp_path / "never_imported").mkdir()
        (tmp_path / "never_imported" / "__init__.py").write_text("")
        by_value, files = self.probe(path, tmp_path)
        assert by_value == ["pipelines"]
        assert files == [
            "beside_mine.py",
            "mine_too/__init__.py",
            "mine_too/deeper/__init__.py",
            "mine_too/deeper/part.py",
        ]

    def test_a_file_beside_it_with_the_name_of_another_module_is_left_behind(self, tmp_path: Path) -> None:
        path = user_file(tmp_path, more="from slackwater import windowing")
        for name in ("pyarrow.py", "json.py", "sound.py"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text("raise SystemExit('the wrong module')" if name != "sound.py" else "")
        assert self.probe(path, Path("/"))[1] == ["sound.py"]

    def test_a_module_goes_by_its_name_with_its_package(self, tmp_path: Path) -> None:
        (tmp_path / "ours").mkdir()
        user_file(tmp_path / "ours", file="listed.py")
        (tmp_path / "ours" / "__init__.py").write_text("")
        (tmp_path / "outside.py").write_text("")
        assert self.probe("ours.listed", tmp_path) == ([], ["ours/__init__.py", "ours/listed.py"])

    def test_a_module_of_ours_is_there_already(self, tmp_path: Path) -> None:
        assert self.probe("slackwater.bench.pipelines", tmp_path) == ([], [])

    def test_executors_lack_nothing_of_the_examples(self, tmp_path: Path) -> None:
        program = (
            "from slackwater.pipelines import registry as r; r.load(); print(r.loaded_by_value(), "
            "r.loaded_files())"
        )
        process = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert process.stdout == "[] {}\n", process.stderr


class TestErrors:
    def test_an_unknown_pipeline_is_answered_with_those_that_exist(self) -> None:
        with pytest.raises(
            UnknownPipeline,
            match=f"no pipeline is called 'departure'; registered: {', '.join(OURS)}. Did you mean "
            r"departures\? Add your own file with --pipelines",
        ):
            load()["departure"]
        with pytest.raises(UnknownPipeline, match="registered: none"):
            registry.Registry()["x"]

    @pytest.mark.parametrize(
        ("file_or_module", "message"),
        [
            (
                "missing.py",
                "missing.py: there is no such file; --pipelines takes a Python file or a module name",
            ),
            ("folder/missing", "there is no such file"),
            ("no_such_module", "no_such_module: no such file, and no module of that name can be imported"),
        ],
    )
    def test_a_file_that_is_not_there(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file_or_module: str, message: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        with pytest.raises(PipelinesFileError, match=message) as error:
            load(file_or_module)
        assert error.value.exit_code == 2

    def test_a_file_that_is_not_python(self, tmp_path: Path) -> None:
        (tmp_path / "pipelines.yaml").write_text("name: x")
        with pytest.raises(PipelinesFileError, match="is no Python file"):
            load(str(tmp_path / "pipelines.yaml"))

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("1 / 0", "ZeroDivisionError while loading: division by zero"),
            (
                "import not_there_at_all",
                "ModuleNotFoundError while loading: No module named 'not_there_at_all'",
            ),
            ("def broken(:", "SyntaxError while loading"),
            (
                "from slackwater.windowing import "
                "TumblingEventTimeWindows\nTumblingEventTimeWindows.of(3600)",
                "ConfigurationError while loading: .* timedelta",
            ),
            ("x = 1", "declares no Pipeline at its top level"),
            (
                "def make():\n    from slackwater.examples.departures import departures",
                "declares no Pipeline at its top level",
            ),
        ],
    )
    def test_a_file_that_does_not_load_or_declares_nothing(
        self, tmp_path: Path, text: str, message: str
    ) -> None:
        path = tmp_path / "pipelines.py"
        path.write_text(text)
        before = set(sys.modules)
        with pytest.raises(PipelinesFileError, match=f"{re.escape(str(path))}: {message}"):
            load(str(path))
        if "while loading" in message:
            assert not any(name.startswith("slackwater_pipelines_") for name in set(sys.modules) - before)

    def test_a_declaration_that_is_refused_keeps_its_own_message(self, tmp_path: Path) -> None:
        path = user_file(tmp_path, name="Mine")
        with pytest.raises(PipelineError, match="Pipeline 'Mine': a name is"):
            load(str(path))

    def test_a_name_that_two_pipelines_of_the_user_have(self, tmp_path: Path) -> None:
        path = user_file(tmp_path, name="mine")
        path.write_text(
            path.read_text() + "\nfrom dataclasses import replace\ntwin = replace(mine, slice=HOUR)\n"
        )
        path.write_text(path.read_text().replace("slice=HOUR", "max_catch_up=3"))
        with pytest.raises(PipelinesFileError, match="two pipelines are called 'mine'; give one of them"):
            load(str(path))


def test_a_user_takes_the_name_of_an_example_and_the_others_stay(tmp_path: Path) -> None:
    path = user_file(tmp_path, name="departures")
    registered = load(str(path))
    assert registered["departures"].source.table != load()["departures"].source.table
    assert registered.sources("departures") == [path]
    assert set(registered) == set(load()) and registered["turnarounds"] == load()["turnarounds"]
    assert set(load(str(path), examples=False)) == {"departures"}


class TestSeveral:
    def test_each_file_of_a_folder_is_loaded_for_itself(self, tmp_path: Path) -> None:
        for name in ("first", "other"):
            user_file(tmp_path, name, file=f"{name}.py")
        (tmp_path / "broken.py").write_text("1 / 0")
        (tmp_path / "helper.py").write_text("HOURS = 3")
        (tmp_path / "_private.py").write_text("1 / 0")
        registry = load(str(tmp_path), examples=False)
        assert list(registry) == ["first", "other"]
        assert list(registry.faults) == [str(tmp_path / "broken.py")]
        with pytest.raises(UnknownPipeline, match=r"first, other.*\nNot loaded: .*broken.py: Zero"):
            registry["missing"]

    def test_files_modules_and_folders_are_named_with_commas_between(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        user_file(tmp_path / "folder", "deep")
        user_file(tmp_path, "top", file="several_top.py")
        monkeypatch.syspath_prepend(tmp_path)
        text = f"{tmp_path / 'folder'}, several_top,{tmp_path / 'missing.py'}"
        registry = load(text, examples=False)
        assert list(registry) == ["deep", "top"]
        assert "there is no such file" in registry.faults[str(tmp_path / "missing.py")].message

    def test_a_name_that_another_file_has_is_the_fault_of_the_later_one(self, tmp_path: Path) -> None:
        user_file(tmp_path, "mine", file="a.py")
        other_text = DECLARATION.format(name="mine", more="").replace("hours=1", "hours=2")
        (tmp_path / "b.py").write_text(other_text)
        registry = load(str(tmp_path), examples=False)
        assert registry.sources("mine")[0] == tmp_path / "a.py"
        assert "two pipelines are called 'mine'" in registry.faults[str(tmp_path / "b.py")].message

    def test_a_folder_without_pipelines_is_a_fault(self, tmp_path: Path) -> None:
        assert "none of its files declares a Pipeline" in load(str(tmp_path)).faults[str(tmp_path)].message


class TestTheCodeHash:
    def hash_of(self, path: Path) -> str:
        return load(str(path)).code_hash("mine")

    def test_the_code_hash_is_the_same_wherever_the_files_lie(self, tmp_path: Path) -> None:
        assert self.hash_of(user_file(tmp_path / "a")) == self.hash_of(user_file(tmp_path / "b"))

    def test_the_code_hash_changes_with_the_file_what_it_imports_and_our_version(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = user_file(tmp_path)
        alone = self.hash_of(path)
        (tmp_path / "beside.py").write_text("X = 1")
        assert self.hash_of(path) == alone
        hashes = {alone}
        path.write_text("import beside\n" + path.read_text().replace('"n": agg', '"n" * beside.X: agg'))
        hashes.add(self.hash_of(path))
        (tmp_path / "beside.py").write_text("X = 1  # now")
        hashes.add(self.hash_of(path))
        monkeypatch.setattr(registry, "product_version", lambda: "99")
        hashes.add(self.hash_of(path))
        assert len(hashes) == 4

    def test_the_code_hash_of_an_example_does_not_depend_on_its_neighbours(self) -> None:
        assert load().code_hash("departures") == load().code_hash("departures")
        assert len(load().sources("departures")) == 1


def test_the_version_is_the_installed_one() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", registry.product_version())


def test_reading_a_users_file_imports_neither_spark_nor_delta_nor_arrow(tmp_path: Path) -> None:
    path = user_file(tmp_path)
    heavy = {"pyspark", "deltalake", "pyarrow", "pandas", "duckdb", "great_expectations"}
    probe = (
        f"import sys; from slackwater.pipelines.registry import load; load({str(path)!r}); "
        f"print({heavy} & {{name for name in sys.modules}})"
    )
    process = subprocess.run(
        [sys.executable, "-c", probe],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"]},
    )
    assert process.stdout == "set()\n"
