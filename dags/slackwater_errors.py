"""Holds no DAG: Airflow shows what can't be declared as the import error of this file, and the DAGs of the
other pipelines stay.
"""

from slackwater.airflow import check

check()
