"""A source is pinned to one version of one table, and says why where it can't be."""

import json
import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from slackwater.engine.source import pinned_source
from slackwater.engine.source.pinning import VersionGone, pin, pin_both
from slackwater.tables.delta import table_handles
from slackwater.tables.delta.folder import Folder
from slackwater.tables.errors import CatalogManaged, LogDamaged, NotADeltaTable
from slackwater.tables.stores import filesystem
from tests.engine.source.arrivals import (
    SCHEMA,
    SOURCE,
    after,
    commit,
    ms,
    rows_read,
)


class TestPinning:
    def test_a_pinned_version_reads_the_same_rows_for_ever(self, tmp_path: Path) -> None:
        first = commit(tmp_path, {1: after(1)})
        commit(tmp_path, {2: after(2)})
        assert (first.version, first.why_not_direct, first.schema) == (0, None, SCHEMA)
        assert rows_read(first, after(0), after(24))[0] == [1]
        assert pin(SOURCE, str(tmp_path), 0) == first
        assert pin(SOURCE, str(tmp_path)).version == 1

    def test_the_log_is_read_once_for_a_pinned_version_and_is_not_sent_to_tasks(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = commit(tmp_path, {1: after(1)})
        second = commit(tmp_path, {2: after(2)})
        monkeypatch.setattr(pinned_source, "DeltaTable", None)
        assert rows_read(first, after(0), after(24)) == ([1], [])
        assert rows_read(second, after(0), after(24), first) == ([1, 2], [])
        monkeypatch.undo()
        pickled_source = pickle.loads(pickle.dumps(second))
        assert pickled_source == second
        assert "actions" in vars(second) and "actions" not in vars(pickled_source)
        assert replace(second, version=first.version).actions.num_rows == 1
        assert pickled_source.actions == second.actions

    def test_a_table_without_rows_is_a_source(self, tmp_path: Path) -> None:
        Folder(str(tmp_path), SCHEMA).ensure()
        assert rows_read(pin(SOURCE, str(tmp_path)), after(0), after(24)) == ([], [])

    def test_what_is_no_delta_table_says_how_to_load_one(self, tmp_path: Path) -> None:
        (tmp_path / "notes.csv").write_text("a,b")
        (tmp_path / "file").write_text("")
        for place in (tmp_path, tmp_path / "missing", tmp_path / "file"):
            with pytest.raises(
                NotADeltaTable,
                match=r"source 't': there is no Delta table at .*`slackwater examples load NAME",
            ) as error:
                pin(SOURCE, str(place))
            assert "\n" not in str(error.value)

    @pytest.mark.parametrize("feature", ["catalogManaged", "catalogOwned-preview"])
    def test_a_table_of_a_catalog_says_what_it_is(self, tmp_path: Path, feature: str) -> None:
        commit(tmp_path, {1: after(1)})
        [log] = (tmp_path / "_delta_log").glob("*.json")
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        for line in lines:
            if "protocol" in line:
                features = {"readerFeatures": [feature], "writerFeatures": [feature, "inCommitTimestamp"]}
                line["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
        log.write_text("".join(json.dumps(line) + "\n" for line in lines))
        with pytest.raises(CatalogManaged, match=r"is managed by its catalog.*DROP FEATURE") as error:
            pin(SOURCE, str(tmp_path))
        assert error.value.exit_code == 2 and "copy" not in error.value.message

    def test_a_version_that_is_gone_is_told_from_a_table_that_is_not_there(self, tmp_path: Path) -> None:
        commit(tmp_path, {1: after(1)})
        with pytest.raises(
            VersionGone, match=r"source 't': version 7 can't be read any more .*delta\.logRetentionDuration"
        ) as error:
            pin(SOURCE, str(tmp_path), 7)
        assert error.value.exit_code == 1

    @pytest.mark.parametrize(
        ("mode", "why_not_direct"), [("name", None), ("id", "column mapping by numbers")]
    )
    def test_columns_that_are_mapped_by_numbers_are_left_to_spark(
        self, tmp_path: Path, mode: str, why_not_direct: str | None
    ) -> None:
        commit(tmp_path, {1: after(1)})
        log = sorted((tmp_path / "_delta_log").glob("*.json"))[0]
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        for line in lines:
            if "protocol" in line:
                line["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
            if "metaData" in line:
                line["metaData"]["configuration"] |= {
                    "delta.columnMapping.mode": mode,
                    "delta.columnMapping.maxColumnId": "3",
                }
                schema = json.loads(line["metaData"]["schemaString"])
                for number, field in enumerate(schema["fields"], 1):
                    field["metadata"] = {
                        "delta.columnMapping.id": number,
                        "delta.columnMapping.physicalName": f"col-{number}",
                    }
                line["metaData"]["schemaString"] = json.dumps(schema)
        log.write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert pin(SOURCE, str(tmp_path)).why_not_direct == why_not_direct

    def test_a_shallow_clone_is_left_to_spark(self, tmp_path: Path) -> None:
        commit(tmp_path / "original", {1: after(1)})
        shutil.copytree(tmp_path / "original" / "_delta_log", tmp_path / "clone" / "_delta_log")
        log = sorted((tmp_path / "clone" / "_delta_log").glob("*.json"))[0]
        log.write_text(log.read_text().replace('"path":"part', f'"path":"file://{tmp_path}/original/part'))
        assert pin(SOURCE, str(tmp_path / "clone")).why_not_direct == "files of another table"


class TestALogThatHasLostAFile:
    @pytest.fixture
    def uri(self, tmp_path: Path) -> str:
        """A source of the versions 0 … 4, a row each."""
        for row in range(5):
            commit(tmp_path, {row: after(row)})
        return str(tmp_path)

    @pytest.mark.parametrize("version", [0, 2, 4])
    def test_an_empty_commit_is_named_and_not_passed_over(self, uri: str, version: int) -> None:
        (Path(uri) / f"_delta_log/{version:020d}.json").write_bytes(b"")
        with pytest.raises(LogDamaged, match=rf"{uri}: _delta_log/{version:020d}\.json is empty"):
            pin(SOURCE, uri)

    def test_a_missing_commit_is_named(self, uri: str) -> None:
        (Path(uri) / f"_delta_log/{2:020d}.json").unlink()
        with pytest.raises(LogDamaged, match=rf"{uri}: _delta_log/{2:020d}\.json is missing"):
            pin(SOURCE, uri)

    @pytest.mark.parametrize("version", [3, 4])
    def test_an_empty_commit_behind_the_version_of_the_run_before_is_named(
        self, uri: str, version: int
    ) -> None:
        (Path(uri) / f"_delta_log/{version:020d}.json").write_bytes(b"")
        with pytest.raises(LogDamaged, match=rf"{version:020d}\.json is empty"):
            pin_both(SOURCE, uri, 2)

    def test_what_lies_before_the_run_before_was_looked_at_by_it(self, uri: str) -> None:
        """A log whose checkpoints come seldom is not asked for all its files by every slice."""
        requested_uris: list[str] = []

        class Listed:
            def open_input_stream(self, path: str) -> Any:
                requested_uris.append(path)
                return filesystem(uri).open_input_stream(path)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(table_handles, "filesystem", lambda _: Listed())
            pin_both(SOURCE, uri, 3)
        assert requested_uris == [f"_delta_log/{4:020d}.json"]

    def test_an_empty_commit_that_a_checkpoint_has_made_good_for_says_not_what_it_changed(
        self, uri: str
    ) -> None:
        """Which of its rows are new since the run before can't be told any more."""
        before, newest = pin(SOURCE, uri, 1), pin(SOURCE, uri)
        DeltaTable(uri).create_checkpoint()
        (Path(uri) / f"_delta_log/{3:020d}.json").write_bytes(b"")
        assert pin(SOURCE, uri) == newest
        with pytest.raises(LogDamaged, match=rf"{3:020d}\.json is empty"):
            newest.check_kept(before, ms(after(2)), "a")
