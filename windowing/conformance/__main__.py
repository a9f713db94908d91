"""`python -m windowing.conformance [--back-end B] FILE...`: exits 1 when a case fails, 2 for wrong arguments.

Argument handling only.
"""

import argparse
import sys
from pathlib import Path

from windowing.conformance.player import play
from windowing.conformance.storages import BACK_ENDS

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m windowing.conformance")
    parser.add_argument("--back-end", choices=BACK_ENDS, help="where operators keep state and timers")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    sys.exit(1 if play(arguments.files, back_end=arguments.back_end) else 0)
