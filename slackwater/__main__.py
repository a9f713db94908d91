"""`python -m slackwater VERB …`: the command line, as the console script `slackwater` starts it."""

from slackwater.cli.command_line import application

application()
