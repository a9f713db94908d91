"""What `infra/airflow` sets for Airflow's processes, as it prints it. Starts none of them."""

import os
import shlex
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def printed_settings(home: Path, **variables: str) -> dict[str, str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "AIRFLOW_HOME": str(home), **variables}
    script = [str(ROOT / "infra" / "airflow"), "env"]
    lines = subprocess.run(script, env=environment, capture_output=True, text=True, check=True).stdout
    words = (shlex.split(line) for line in lines.splitlines())
    return dict(assignment.split("=", 1) for _, assignment in words)


def test_the_dags_of_a_file_stay_for_longer_than_its_parse_and_their_writing_may_take(
    tmp_path: Path,
) -> None:
    """Airflow removes the DAGs of a file that are older, by its `stale_dag_threshold`, than the end of the
    parse that wrote them; by default after no more seconds (50) than a parse of hundreds of DAGs may take.
    """
    settings = printed_settings(tmp_path)
    seconds = [
        int(settings[f"AIRFLOW__{name}"])
        for name in (
            "CORE__DAGBAG_IMPORT_TIMEOUT",
            "DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT",
            "DAG_PROCESSOR__STALE_DAG_THRESHOLD",
        )
    ]
    assert seconds == sorted(set(seconds)), "an import ends, then the parse, and only then are DAGs stale"
    assert seconds[0] > 218 * 0.1, "218 DAGs are imported on a machine that is ten times as slow"


def test_a_setting_of_the_caller_stays(tmp_path: Path) -> None:
    name = "AIRFLOW__DAG_PROCESSOR__STALE_DAG_THRESHOLD"
    assert printed_settings(tmp_path, **{name: "7"})[name] == "7"
