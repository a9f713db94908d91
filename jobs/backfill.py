"""The PySpark application that restates a range of slices, with the arguments of
`slackwater backfill`: `spark-submit backfill.py PIPELINE …`.
"""

import sys

from slackwater.cli.command_line import application

if __name__ == "__main__":
    application(["backfill", *sys.argv[1:]])
