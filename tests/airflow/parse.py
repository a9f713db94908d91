"""Run in a fresh interpreter: parses the DAG folder as Airflow's dag-processor does and prints what came of
it as JSON.

Arguments: the DAG folder. Output: import errors, the serialized DAGs, and the top-level packages that were
imported.
"""

import json
import sys

from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization

before = set(sys.modules)
bag = DagBag(sys.argv[1])
new_modules = set(sys.modules) - before
print(
    json.dumps(
        {
            "import_errors": bag.import_errors,
            "dags": {name: DagSerialization.to_dict(dag)["dag"] for name, dag in bag.dags.items()},
            "files": [stat.file for stat in bag.dagbag_stats],
            "packages": sorted({name.partition(".")[0] for name in new_modules}),
        },
        default=str,
    ),
    file=sys.__stdout__,
)
