"""Writes into `anabranch.errors` which of its modules defines which error, so that a name loads one module.

    python scripts/make_error_index.py            # brings the index up to date
    python scripts/make_error_index.py --check    # changes nothing; exit code 1 where the index is out of date

The index is the part between the two comments that name this script. The rest of the file is written by hand.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "anabranch" / "errors"
FILE = PACKAGE / "__init__.py"
BEGIN = "# Begin of what scripts/make_error_index.py writes.\n"
END = "# End of what scripts/make_error_index.py writes.\n"


def modules_by_class() -> dict[str, str]:
    """The module of each public class, by the name of the class."""
    modules: dict[str, str] = {}
    for path in PACKAGE.glob("*.py"):
        for node in ast.parse(path.read_text("utf-8")).body if path != FILE else ():
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                if node.name in modules:
                    raise SystemExit(f"{node.name} is in {modules[node.name]} and in {path.stem}")
                modules[node.name] = path.stem
    return dict(sorted(modules.items()))


def with_index(text: str) -> str:
    """The text of `__init__.py` with the index that it should have."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    modules = modules_by_class()
    imports = "".join(f"    from anabranch.errors.{name} import *\n" for name in sorted(set(modules.values())))
    rows = "".join(f'    "{name}": "{module}",\n' for name, module in modules.items())
    index = f'if TYPE_CHECKING:\n{imports}\n_MODULES = {{\n{rows}}}\n"""The module of each class."""\n'
    return f"{before}{BEGIN}{index}{END}{after}"


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    text = FILE.read_text("utf-8")
    made = with_index(text)
    if made == text:
        return 0
    if "--check" in arguments:
        print(f"{FILE} is out of date; run: python scripts/make_error_index.py")
        return 1
    FILE.write_text(made, "utf-8")
    print(f"wrote {FILE}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
