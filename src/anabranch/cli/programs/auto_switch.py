"""`anabranch auto`: the switch for a whole environment."""

from __future__ import annotations

import dataclasses
import os
import sys
from typing import TYPE_CHECKING, Any, Literal

from anabranch.auto import site_file

if TYPE_CHECKING:
    from rich.console import Console


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """The state of the switch."""

    is_on: bool
    files: tuple[str, ...]
    """The files that switch it on: in this environment, and in other folders of packages that this Python reads."""
    path: str
    """The path of this environment's file, whether or not it exists."""
    off_for_this_process: bool
    changed: bool

    def document(self) -> dict[str, Any]:
        return {
            "on": self.is_on,
            "files": list(self.files),
            "path": self.path,
            "python": sys.executable,
            "offByEnvironment": self.off_for_this_process,
            "changed": self.changed,
        }

    def print_to(self, out: Console) -> None:
        if self.is_on:
            out.print(
                f"On for {sys.executable}: each Spark session knows Delta from its start, and `import delta` imports "
                "anabranch."
            )
            for path in self.files:
                out.print(f"By {path}", soft_wrap=True)  # on one line, since users copy it
            out.print(f"`anabranch auto off` switches it off; {site_file.SWITCH}=0 exempts one process.")
        else:
            out.print(f"Off for {sys.executable}: there is no {self.path}", soft_wrap=True)
        if self.is_on and self.off_for_this_process:
            out.print(f"{site_file.SWITCH}=0 is set here, so processes that are started from here are exempt.")


def turn(position: Literal["on", "off", "status"]) -> Switch:
    """Switch on or off, or neither for "status". Returns the state after it."""
    file = site_file.file_of_this_python()
    existed = file.is_there
    if position == "on":
        file.write()
    elif position == "off":
        file.remove()
    files = dict.fromkeys([*([file] if file.is_there else []), *site_file.files_of_this_python()])
    return Switch(
        is_on=bool(files),
        files=tuple(str(seen.path) for seen in files),
        path=str(file.path),
        off_for_this_process=os.environ.get(site_file.SWITCH) == "0",
        changed=existed != file.is_there,
    )
