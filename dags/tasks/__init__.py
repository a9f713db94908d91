"""What the tasks of our DAGs do: start a command, read what it left, and turn an exit code into an Airflow
state.
"""
