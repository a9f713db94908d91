"""The script that spark-submit starts: runs the command line on the arguments that follow this file.

Nothing else may lie in this folder: it comes first on sys.path, where a file could take the place of a
standard module.
"""

from slackwater.jobs.command_line import main

if __name__ == "__main__":
    main()
