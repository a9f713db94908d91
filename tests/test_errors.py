"""Each way to fail is a type and an exit code, and its facts survive the way back from another process."""

import pickle

import pytest

from slackwater import errors
from slackwater.errors import SlackwaterError
from slackwater.runtime.jars import JarMismatch, JarsUnavailable
from slackwater.runtime.java import JavaNotFound


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.PermanentError, 1),
        (errors.UsageError, 2),
        (errors.RetryableError, 3),
        (errors.RejectedError, 4),
        (errors.LostRaceError, 5),
        (JavaNotFound, 1),
        (JarMismatch, 1),
        (JarsUnavailable, 3),
    ],
)
def test_each_failure_has_its_exit_code_and_its_facts(kind: type[SlackwaterError], code: int) -> None:
    error = kind("it broke; mend it", where="here", count=3)
    assert (error.exit_code, str(error), error.where, error.count) == (code, "it broke; mend it", "here", 3)
    unpickled = pickle.loads(pickle.dumps(error))
    assert type(unpickled) is kind
    assert (str(unpickled), unpickled.facts) == ("it broke; mend it", {"where": "here", "count": 3})
