"""Everything that knows Spark, Delta and Great Expectations; it starts windowing and is started by argv
alone.

Importing this package imports nothing else: a verb that only looks must answer without a JVM.
"""

if __name__ != "slackwater.jobs":
    raise ImportError(
        "this folder is the package slackwater.jobs: write `from slackwater import …`, or `slackwater.jobs` "
        "for `jobs`",
        name="jobs",
    )
