"""The PySpark application that replays the slices that have arrived, with the arguments of
`slackwater run`: `spark-submit replay.py PIPELINE …`.
"""

import sys

from slackwater.cli.command_line import application

if __name__ == "__main__":
    application(["run", *sys.argv[1:]])
