"""`anabranch auto`: the switch for a whole environment."""

from __future__ import annotations

import dataclasses
import os
import sys
from typing import Any, Literal

from anabranch.auto import site_file
from anabranch.cli.output import console


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """How the switch stands now."""

    is_on: bool
    files: tuple[str, ...]
    """The files that say so: of this environment, and of those that it looks into."""
    path: str
    """Where the file of this environment is, or would be."""
    off_for_this_process: bool
    changed: bool

    def document(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "on": self.is_on,
            "files": list(self.files),
            "path": self.path,
            "python": sys.executable,
            "offByEnvironment": self.off_for_this_process,
            "changed": self.changed,
        }


def turn(position: Literal["on", "off", "status"]) -> Switch:
    """Do what is asked, and tell how things stand after it."""
    file = site_file.of_this_python()
    before = file.is_there
    if position == "on":
        file.write()
    elif position == "off":
        file.remove()
    seen = dict.fromkeys([*([file] if file.is_there else []), *site_file.seen_by_this_python()])
    return Switch(
        is_on=bool(seen),
        files=tuple(str(found.path) for found in seen),
        path=str(file.path),
        off_for_this_process=os.environ.get(site_file.SWITCH) == "0",
        changed=before != file.is_there,
    )


def print_switch(switch: Switch) -> None:
    """In words."""
    out = console()
    if switch.is_on:
        out.print(f"On for {sys.executable}: Spark sessions know Delta as soon as they exist, `delta` is anabranch.")
        for path in switch.files:
            out.print(f"By {path}", soft_wrap=True)  # a path is copied, so it stays on one line
        out.print(f"`anabranch auto off` undoes it; {site_file.SWITCH}=0 leaves one process out.")
    else:
        out.print(f"Off for {sys.executable}: there is no {switch.path}", soft_wrap=True)
    if switch.is_on and switch.off_for_this_process:
        out.print(f"{site_file.SWITCH}=0 is set here: processes started from here are left out.")
