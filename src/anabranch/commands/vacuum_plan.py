"""What goes: files that are old and that nobody needs, and directories that are empty then."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.commands.vacuum_needed import NeededFiles
from anabranch.storage.paths import split_path


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VacuumPlan:
    """What VACUUM deletes."""

    files: pa.Table
    """`TREE_SCHEMA`, by path."""
    empty_directories: tuple[str, ...] = ()
    """Nothing was in them when they were listed. Deepest first."""
    emptied_directories: tuple[str, ...] = ()
    """Nothing is in them once the files are gone. Deepest first."""
    num_directories: int = 0
    """Of all that were listed, the table's own counted in."""

    @property
    def paths(self) -> list[str]:
        """What a dry run names."""
        return [*self.files["path"].to_pylist(), *reversed(self.empty_directories)]

    @property
    def size_bytes(self) -> int:
        return int(pc.sum(self.files["size_bytes"]).as_py() or 0)


def plan_vacuum(listed: pa.Table, needed: NeededFiles, *, cutoff_ms: int) -> VacuumPlan:
    """Of what is listed (`TREE_SCHEMA`), all that is older than `cutoff_ms` and not needed.

    A young file may belong to a commit that has yet to land, and a young directory to a file that has yet to come.
    """
    is_old = pc.less(listed["modified_ms"], cutoff_ms)
    is_file = pc.invert(listed["is_directory"])
    goes = pc.and_(pc.and_(is_old, is_file), pc.invert(needed.among(listed["path"])))
    directories = listed.filter(listed["is_directory"])
    ages = dict(zip(directories["path"].to_pylist(), directories["modified_ms"].to_pylist(), strict=True))
    removable = {path for path, modified_ms in ages.items() if modified_ms < cutoff_ms}
    empty = _without_content(ages, removable, _directories_of(listed.filter(is_file)["path"]))
    stay = _directories_of(listed.filter(pc.and_(is_file, pc.invert(goes)))["path"]) if ages else set()
    emptied = _without_content(ages, removable, stay)
    known = frozenset(empty)
    return VacuumPlan(
        files=listed.filter(goes).sort_by("path"),
        empty_directories=tuple(empty),
        emptied_directories=tuple(path for path in emptied if path not in known),
        num_directories=len(ages) + 1,
    )


def _directories_of(paths: pa.ChunkedArray) -> set[str]:
    """Those in which the files lie, and all above these."""
    found = set[str]()
    for directory in pc.unique(pc.replace_substring_regex(paths, "/?[^/]*$", "")).to_pylist():
        above = directory
        while above and above not in found:
            found.add(above)
            above = split_path(above)[0]
    return found


def _without_content(directories: Iterable[str], removable: set[str], with_files: set[str]) -> list[str]:
    """The removable directories that hold no file and no directory that stays, deepest first."""
    stay, found = set(with_files), list[str]()
    for path in sorted(directories, key=lambda path: (path.count("/"), path), reverse=True):
        if path in removable and path not in stay:
            found.append(path)
        else:
            stay.add(split_path(path)[0])
    return found
