"""Entry point of the console script. Stands outside of our packages to say so when somebody else's package has taken the place of one.

Standard library only, until both packages are known to be ours.
"""

import importlib
import sys
from pathlib import Path
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line; exit 2 when `jobs` or `windowing` is not ours."""
    here = Path(__file__).resolve().parent
    for name in ("jobs", "windowing"):
        package = importlib.import_module(name)
        found = Path(package.__file__ or next(iter(package.__path__))).resolve()
        if here not in found.parents:
            sys.exit(_shadowed(name, found, here / name))
    from jobs.command_line import main as command_line

    command_line()


def _shadowed(name: str, found: Path, ours: Path) -> int:
    print(
        f"slackwater: the package `{name}` that Python finds is {found}, not ours ({ours}). Take its folder off PYTHONPATH, or rename it; "
        "a pipelines file may stand anywhere and is given with --pipelines FILE.",
        file=sys.stderr,
    )
    return 2


if __name__ == "__main__":
    main()
