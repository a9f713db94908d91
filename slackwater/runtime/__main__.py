"""`python -m slackwater.runtime`, the last step of set-up: makes the launcher of Java, fetches missing Delta
jars, and prints one line with the versions and paths, or the failure's message and the next step.
"""

import platform
import sys

from slackwater.errors import SlackwaterError
from slackwater.runtime.jars import jars
from slackwater.runtime.java import find_java, java_home


def main() -> int:
    try:
        java_home()
        folder = jars()[0].parent
    except SlackwaterError as error:
        print(f"set-up stopped: {error}", file=sys.stderr)
        return error.exit_code
    print(
        f"set-up: Python {platform.python_version()}, Java {find_java()}, Delta jars in {folder}",
        file=sys.stderr,
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
