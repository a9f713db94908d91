"""`python -m slackwater.conformance [--back-end B] [--snapshots S] FILE...`: exits 1 when a case fails, 2 for
wrong arguments.
"""

import argparse
import sys
from pathlib import Path

from slackwater.conformance.carrying import CARRIERS
from slackwater.conformance.player import play
from slackwater.conformance.storages import BACK_ENDS

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m slackwater.conformance")
    parser.add_argument("--back-end", choices=BACK_ENDS, help="where operators keep state and timers")
    parser.add_argument(
        "--snapshots",
        choices=CARRIERS,
        default="memory",
        help="what snapshots are between operators (default: memory)",
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    sys.exit(
        1
        if play(
            arguments.files, back_end=arguments.back_end, carry=CARRIERS[arguments.snapshots]
        ).failure_count
        else 0
    )
