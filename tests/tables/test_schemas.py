"""Every table is plain, has the documented columns in the documented order, and a pipeline's own columns
can't collide with them.
"""

from pathlib import Path

import pyarrow as pa
import pytest

from slackwater.stored_columns import RESERVED_NAMES
from slackwater.tables.schemas import (
    PARTITIONED_BY,
    SNAPSHOT_TABLES,
    STAGED_TABLES,
    Shape,
    table_columns,
    table_schemas,
)
from slackwater.tables.warehouse import Warehouse

UTC = pa.timestamp("us", tz="UTC")
SHAPE = Shape(
    keys=(("origin", pa.string()), ("day", pa.date32())),
    results=(("n", pa.int64()), ("mean", pa.float64())),
    parts=(("n__count", pa.int64()), ("mean__sum", pa.float64()), ("mean__sum_exact", pa.binary())),
    source=(
        ("event_time", UTC),
        ("origin", pa.string()),
        ("Windows", pa.string()),
        ("tailnum", pa.string()),
        ("at", UTC),
    ),
    states=(("last_seen__value", UTC),),
)

# The design of the tables. K are the key columns, R the results, P the accumulators' parts, S the source's
# other columns, V typed state.
DOCUMENTED_COLUMNS = {
    "runs": """
        seq run_id kind branch parent_seq live slice_start slice_end attempt engine watermark_in
        watermark_out inputs config_hash code_hash
        format_version rows_read rows_filtered rows_accepted rows_late rows_unassigned rows_quarantined
        rows_folded assignments_missed
        elements_never_fired windows_opened windows_fired windows_refired windows_merged windows_cleaned
        windows_open timers_pending
        verdict state_hash output_hash files started_at committed_at phase_seconds version
        table_versions erased rows_emitted side_rows rows_duplicate place place_reason
        rows_exploded""",
    "attempts": """
        run_id parent_seq slice_start slice_end attempt owner claimed_at expires_at outcome verdict
        ledger_row exit_code step error at""",
    "window_state": """
        run_id key_group K window_start window_end state_window_start state_window_end elements firings
        last_fired_at next_firing
        cleanup_time first_arrival last_arrival P contents trigger_state user_state""",
    "keyed_state": "run_id key_group K state_name namespace_start namespace_end map_key V value_json",
    "timers": "run_id key_group K window_start window_end service domain time purpose",
    "source_progress": "run_id source_partition max_event_time last_arrival idle unfinished_tick_start "
    "watermark clock collected carried_watermark",
    "panes": "run_id key_group K window_start window_end firing ordinal timestamp kind R elements watermark "
    "tick_end cause_arrival",
    "late_events": "run_id key_group K S event_time arrival_time windows late_by_ms watermark",
    "quarantine": "run_id reason_code reason row_json source_file source_version arrival_time column_name",
    "published": "K window_start window_end R kind firing ordinal timestamp revision run_seq key_group "
    "window_date",
    "corrections": """
        seq run_id key_group K window_start window_end ordinal timestamp kind firing revision op cause old
        new at""",
    "validations": "run_id expectation column_name severity passed observed unexpected checked sample_json "
    "result_json",
    "overrides": "row_hash arrival_time reason at true_arrival",
}
COLUMNS_MEANT = {
    "K": "origin day",
    "R": "n mean",
    "P": "n__count mean__sum mean__sum_exact",
    "S": "tailnum at",
    "V": "last_seen__value",
}


@pytest.mark.parametrize("table", DOCUMENTED_COLUMNS)
def test_columns_are_the_documented_ones_in_the_documented_order(table: str) -> None:
    documented_names = " ".join(
        COLUMNS_MEANT.get(name, name) for name in DOCUMENTED_COLUMNS[table].split()
    ).split()
    assert [name for name, _ in table_columns(SHAPE)[table]] == documented_names


def test_no_table_is_undocumented() -> None:
    assert list(table_columns(SHAPE)) == list(DOCUMENTED_COLUMNS)


def test_the_lists_of_tables_name_tables_that_exist() -> None:
    assert set(SNAPSHOT_TABLES) < set(STAGED_TABLES) < set(DOCUMENTED_COLUMNS)
    for table, columns in PARTITIONED_BY.items():
        assert set(columns) <= set(table_schemas(SHAPE)[table].names)
    assert {table for table, columns in PARTITIONED_BY.items() if columns == ("run_id",)} == set(
        SNAPSHOT_TABLES
    )


def test_column_names_differ_also_in_lower_case() -> None:
    for table, columns in table_columns(SHAPE).items():
        lower_names = [name.lower() for name, _ in columns]
        assert len(lower_names) == len(set(lower_names)), table


def test_corrections_hold_whole_results_before_and_after() -> None:
    results = pa.struct([("n", pa.int64()), ("mean", pa.float64())])
    corrections = table_schemas(SHAPE)["corrections"]
    assert corrections.field("old").type == corrections.field("new").type == results


def test_a_key_or_result_can_have_no_name_that_a_table_gives_to_a_column_of_its_own() -> None:
    """But for the ledger and the other tables that have no column of a pipeline."""
    tables_with_docs = {"runs", "attempts", "validations", "quarantine", "source_progress", "overrides"}
    mine = {
        name
        for table, columns in table_columns(Shape((), (), (), ())).items()
        if table not in tables_with_docs
        for name, _ in columns
    }
    assert mine == RESERVED_NAMES


TYPES = [
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(38, 10),
    pa.string(),
    pa.bool_(),
    pa.date32(),
    pa.binary(),
    UTC,
    pa.list_(pa.int32()),
    pa.struct([("a", pa.int64())]),
    pa.map_(pa.string(), pa.float64()),
]


def test_every_type_is_stored_as_it_is_declared_in_plain_tables(tmp_path: Path) -> None:
    keys, results, parts, source = (
        tuple((f"{role}{number}", kind) for number, kind in enumerate(TYPES)) for role in "krps"
    )
    tables = Warehouse(str(tmp_path)).tables("p", Shape(keys, results, parts, source))
    tables.ensure()
    tables.ensure()
    for name, folder in tables.folders.items():
        protocol = folder.open().as_delta_rs().protocol()
        assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2), name
