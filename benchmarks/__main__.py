"""`python -m benchmarks NAME [ARGUMENTS]`: run one of the measurements of this folder."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("_"))


def main() -> None:
    """Hand over to the program named; without a name, say which there are."""
    if len(sys.argv) < 2 or sys.argv[1] not in PROGRAMS:
        sys.exit(f"Name one of: {', '.join(PROGRAMS)}. See benchmarks/README.md.")
    name = sys.argv[1]
    sys.argv = [str(FOLDER / f"{name}.py"), *sys.argv[2:]]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
