"""The loggers that docs/howto/progress.md names."""

from __future__ import annotations

import re

from test_house import PROJECT, SOURCE, text_of

PAGE = PROJECT / "docs" / "howto" / "progress.md"


def test_the_page_names_all_loggers() -> None:
    used = {
        name
        for module in SOURCE.rglob("*.py")
        for name in re.findall(r"getLogger\((.*?)\)", text_of(module))
        if "anabranch" in name
    }
    listed = {f'"{name}"' for name in re.findall(r"^\| `(anabranch\.\w+)` \|", text_of(PAGE), re.MULTILINE)}
    assert used == listed
