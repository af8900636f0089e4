"""Virtual environments to switch on."""

from __future__ import annotations

import dataclasses
import sysconfig
import venv
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"


@dataclasses.dataclass(frozen=True)
class Environment:
    """A virtual environment."""

    python: Path
    site_packages: Path


def new_environment(folder: Path) -> Environment:
    """An environment of its own, which finds the packages that the tests run on."""
    venv.EnvBuilder(with_pip=False).create(folder)
    site_packages = next((folder / "lib").glob("python3*")) / "site-packages"
    # Each line becomes a place for packages; files like this one are not looked for there.
    packages = [SOURCE, sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    (site_packages / "_packages_of_the_tests.pth").write_text("\n".join(map(str, packages)) + "\n")
    return Environment(python=folder / "bin" / "python", site_packages=site_packages)
