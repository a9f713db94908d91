"""The PySpark application that makes staged slices or a branch live, with the arguments of
`slackwater publish`: `spark-submit publish.py PIPELINE …`.
"""

import sys

from slackwater.cli.command_line import application

if __name__ == "__main__":
    application(["publish", *sys.argv[1:]])
