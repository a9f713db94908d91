"""The verbs of the command line, one file each. Nothing heavy is imported before a verb needs it."""
