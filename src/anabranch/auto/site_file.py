"""The file in an environment's site-packages by which Spark sessions of every Python in it enable themselves."""

from __future__ import annotations

import contextlib
import dataclasses
import site
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

from anabranch.errors.arguments import ForeignSiteFileError, SitePackagesNotWritableError

NAME = "anabranch_auto.pth"
SWITCH = "ANABRANCH_AUTO"
"""The environment variable that switches the file off for one process, by the value `0`."""

_AT_FIRST_IMPORT = """
class AnabranchAuto:
    waits = True

    @staticmethod
    def find_spec(name, path=None, target=None):
        if not AnabranchAuto.waits or name != "pyspark" and name != "delta":
            return None
        AnabranchAuto.waits = False
        try:
            from anabranch.auto.import_hook import install
        except ImportError:
            return None
        install()
        return sys.meta_path[0].find_spec(name, path, target)

if not any(getattr(finder, "__name__", None) == "AnabranchAuto" for finder in sys.meta_path):
    sys.meta_path.insert(0, AnabranchAuto)
"""
"""A finder that installs the import hook at the first import of PySpark or `delta`. A Python that imports neither does
not import anabranch. During that import Python has passed the position at which `install` inserts its finder, hence the
call at the end of `find_spec`. If anabranch was uninstalled and the file remains, the file has no effect. Python reads
the file twice in a virtual environment."""

_GLOBALS = '{"__name__": "anabranch_auto", "sys": sys}'

CONTENT = f"""\
# Made by `anabranch auto on`, removed by `anabranch auto off`: Spark sessions know Delta as soon as they exist.
import os, sys; os.environ.get({SWITCH!r}) == "0" or exec({_AT_FIRST_IMPORT.strip()!r}, {_GLOBALS})
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SiteFile:
    """The file of one environment, which may or may not exist."""

    folder: Path
    """A folder in which Python looks for such files when it starts."""

    @property
    def path(self) -> Path:
        return self.folder / NAME

    @property
    def is_there(self) -> bool:
        """Whether sessions of this environment enable themselves."""
        return self.path.is_file()

    def write(self) -> None:
        """Create the file, or replace that of another version of anabranch."""
        self._raise_if_foreign()
        with self._changing():
            # Another Python that starts meanwhile must read all of the file or none of it.
            with tempfile.NamedTemporaryFile("w", prefix=f"{NAME}.", dir=self.folder, delete=False) as draft:
                draft.write(CONTENT)
            Path(draft.name).chmod(0o644)
            Path(draft.name).replace(self.path)

    def remove(self) -> bool:
        """Delete the file; False if there was none."""
        if not self.is_there:
            return False
        self._raise_if_foreign()
        with self._changing():
            self.path.unlink()
        return True

    def _raise_if_foreign(self) -> None:
        if self.is_there and "anabranch.auto" not in self.path.read_text("utf-8", errors="replace"):
            raise ForeignSiteFileError(path=str(self.path))

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SitePackagesNotWritableError(folder=str(self.folder), problem=error.strerror or str(error)) from error


def file_of_this_python() -> SiteFile:
    """The file of this Python's environment, or of the user's site-packages if anabranch is installed there."""
    user = site.getusersitepackages()
    is_users = bool(site.ENABLE_USER_SITE) and Path(__file__).is_relative_to(user)
    return SiteFile(folder=Path(user if is_users else sysconfig.get_path("purelib")))


def files_of_this_python() -> list[SiteFile]:
    """The existing files that this Python reads: its environment's, and those of other folders on its path."""
    folders = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    files = dict.fromkeys(SiteFile(folder=Path(folder)) for folder in folders if folder in sys.path)
    return [file for file in files if file.is_there]
