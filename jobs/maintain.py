"""The PySpark application that keeps the tables of a pipeline small, with the arguments of
`slackwater maintain`: `spark-submit maintain.py PIPELINE …`.
"""

import sys

from slackwater.cli.command_line import application

if __name__ == "__main__":
    application(["maintain", *sys.argv[1:]])
