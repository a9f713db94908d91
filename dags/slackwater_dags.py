"""The DAGs of every pipeline that the variables of Airflow's processes name."""

from slackwater.airflow import dags

globals().update(dags())
