"""What a DAG file imports: `from slackwater.airflow import dags`, then
`globals().update(dags(pipelines="shop.pipelines", warehouse="s3://lake/warehouse"))`.

The modules of this package declare what runs when, start commands and PySpark applications, and read their
results. No Spark, no Delta, nothing heavy at import: the names below are imported on first use.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slackwater.airflow.declared import check, dags
    from slackwater.airflow.settings import DagOptions

__all__ = ["DagOptions", "check", "dags"]


def __getattr__(name: str) -> Any:
    if name == "DagOptions":
        from slackwater.airflow.settings import DagOptions

        return DagOptions
    if name in __all__:
        from slackwater.airflow import declared

        return getattr(declared, name)
    raise AttributeError(
        f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}", name=name
    )
