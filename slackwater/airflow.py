"""What a DAG file imports: `from slackwater.airflow import dags`, then
`globals().update(dags(pipelines="shop.pipelines", warehouse="s3://lake/warehouse"))`.
"""

from slackwater.dags.declared import check, dags

__all__ = ["check", "dags"]
