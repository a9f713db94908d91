"""`python -m windowing.conformance FILE...`: exits 1 when a case fails, 2 without files.

Argument handling only.
"""

import sys
from pathlib import Path

from windowing.conformance.player import play

if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python -m windowing.conformance FILE...")
    sys.exit(1 if play(map(Path, sys.argv[1:])) else 0)
