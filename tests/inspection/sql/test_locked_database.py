"""What a database that reads files keeps in its memory."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from slackwater.inspection.sql.locked_database import LockedDatabase
from slackwater.tables.delta.stored_files import StoredFiles, actions_of
from slackwater.tables.sql import relation
from slackwater.tables.stores import filesystem

RUNS, ROWS = 3, 6_000_000


def test_of_a_join_with_a_few_runs_these_are_kept_and_not_the_rows_of_a_large_table(tmp_path: Path) -> None:
    run_ids = [f"20240101T000000-{number:016x}" for number in range(RUNS)]
    places = np.arange(ROWS, dtype=np.int32) % RUNS
    column = pa.DictionaryArray.from_arrays(pa.array(places), pa.array(run_ids))
    schema = pa.schema([("run_id", pa.string())])
    table = DeltaTable.create(str(tmp_path / "late"), schema)
    pq.write_table(pa.table({"run_id": column}), tmp_path / "late" / "0.parquet")
    actions = pa.table({"path": ["0.parquet"], "num_records": [ROWS], "size_bytes": [1]})
    assert {"path", "num_records", "size_bytes"} <= set(actions_of(table).column_names)
    uri = str(tmp_path / "late")
    files = StoredFiles(actions, uri, filesystem(uri), schema)
    runs = ", ".join(f"('{run_id}', {seq})" for seq, run_id in enumerate(run_ids))
    database = LockedDatabase.reading(f"{tmp_path}/")
    counted_rows = database.rows(
        f"SELECT seq, count(*) AS n FROM {relation(files, {'run_id': 'VARCHAR'})} AS files "
        f"JOIN (VALUES {runs}) AS runs (run_id, seq) ON files.run_id = runs.run_id GROUP BY ALL ORDER BY ALL",
        (),
    )
    database.close()
    assert counted_rows.to_pylist() == [{"seq": seq, "n": ROWS // RUNS} for seq in range(RUNS)]
