"""DAGs: they declare what runs when, start jobs by argv and read what those leave behind. No Spark, no Delta,
nothing heavy at import.
"""

if __name__ != "slackwater.dags":
    raise ImportError(
        "this folder is the package slackwater.dags: write `from slackwater import …`, or `slackwater.dags` "
        "for `dags`",
        name="dags",
    )
