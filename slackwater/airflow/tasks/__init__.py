"""The tasks of our DAGs: they start a command, read its manifest, and make its exit code an Airflow state."""
