"""The error of a declaration that can't be run. The user has to correct it: exit code 2."""

from slackwater.errors import UsageError


class PipelineError(UsageError):
    """A pipeline, source, aggregate or expectation is declared in a way that can't be run.

    Attributes:
        subject: what was declared, e.g. ``Pipeline 'departures'``.
        rule: the rule that it breaks.
    """

    subject: str
    rule: str

    def __init__(self, subject: str, rule: str) -> None:
        super().__init__(f"{subject}: {rule}", subject=subject, rule=rule)
