"""What a DAG file imports: `from slackwater.airflow import dags`, then
`globals().update(dags(pipelines="shop.pipelines", warehouse="s3://lake/warehouse"))`.
"""

from slackwater.dags.declared import check, dags
from slackwater.dags.options import DagOptions

__all__ = ["DagOptions", "check", "dags"]
