"""`python -m slackwater VERB …`: the command line, as the console script `slackwater` starts it."""

from slackwater.jobs.command_line import application

application()
