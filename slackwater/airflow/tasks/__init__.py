"""The tasks of our DAGs: they start a command, read the manifest that it left, and turn its exit code into a
state of Airflow.
"""
