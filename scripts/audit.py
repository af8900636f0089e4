"""Known vulnerabilities of the packages that development installs, by pip-audit and the advisories of PyPI.

    python scripts/audit.py constraints.txt pyspark==4.3.0

The exit code is 1 where a package has one. Where no database of advisories answers, as behind an index that has only
packages, it says so, and the exit code is 0.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def main() -> int:
    """Print the advisories; returns the exit code."""
    audited = _audited(Path(sys.argv[1]), sys.argv[2:])
    known = [package for package in audited if "skip_reason" not in package]
    if not known:
        print(f"not run: no database of advisories answers ({audited[0]['skip_reason']})")
        return 0
    unknown = [package["name"] for package in audited if "skip_reason" in package]
    found = [(package, advisory) for package in known for advisory in package["vulns"]]
    for package, advisory in found:
        fixed = ", ".join(advisory["fix_versions"]) or "no version"
        print(f"{package['name']} {package['version']}: {advisory['id']}, mended in {fixed}")
    print(f"{len(known)} packages, {len(found)} advisories" + (f"; not known: {', '.join(unknown)}" if unknown else ""))
    return 1 if found else 0


def _audited(constraints: Path, others: Sequence[str]) -> list[dict[str, Any]]:
    """The packages of both, as pip-audit describes them."""
    pins = [*(line for line in constraints.read_text().splitlines() if "==" in line), *others]
    with tempfile.TemporaryDirectory() as scratch:
        requirements = Path(scratch) / "requirements.txt"
        requirements.write_text("\n".join(pins) + "\n")
        command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--no-deps", "--format=json"]
        done = subprocess.run(  # noqa: S603 - the packages are those of our own file
            [*command, "--progress-spinner=off", f"--requirement={requirements}"],
            capture_output=True,
            text=True,
            check=False,
        )
    if not done.stdout:
        sys.exit(done.stderr)
    audited: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    return audited


if __name__ == "__main__":
    sys.exit(main())
