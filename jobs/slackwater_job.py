"""The PySpark application that does what its arguments say: `spark-submit slackwater_job.py VERB …` for any
verb of the command line. The files beside it do what a scheduler starts: replay, backfill, publish, maintain.

Nothing else may lie in this folder: it comes first on sys.path, where a file could take the place of a
standard module.
"""

import sys

from slackwater.cli.command_line import application

if __name__ == "__main__":
    application(sys.argv[1:])
