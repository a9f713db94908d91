"""The verbs of the command line, one file each.

They are not files at the top of `jobs`, because two verbs (`pipelines`, `examples`) have the names of
packages. Nothing heavy is imported before a verb runs.
"""
