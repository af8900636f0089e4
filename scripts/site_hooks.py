"""What `make site` adds to MkDocs, so that the same pages are right on a forge and in the site.

- Pages outside of `docs` (CONTRIBUTING.md and others) are pages of the site; a link to any other file of the project
  leads to a page that shows it.
- A page for each public class is made from its docstrings.
- Diagrams become pictures while the site is built: no script of a reader's browser draws them.
- The notebook becomes a page with the outputs that it was saved with.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import posixpath
import re
from pathlib import Path
from typing import Any

import mermaidx
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]

PROJECT_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "SECURITY.md": "project/security.md",
    "CODE_OF_CONDUCT.md": "project/code-of-conduct.md",
}
"""Pages at the root of the project, and where they are in the site; README.md has a page of its own there."""

API_PAGES = {
    "api/anabranch.md": (
        "Sessions and servers",
        (
            *("anabranch.sessions.session", "anabranch.sessions.enable", "anabranch.sessions.disable"),
            *("anabranch.server.running_server.serve", "anabranch.server.running_server.Server"),
        ),
    ),
    "api/delta-table.md": ("DeltaTable", ("anabranch.tables.delta_table.DeltaTable",)),
    "api/delta-merge-builder.md": ("DeltaMergeBuilder", ("anabranch.tables.merge_builder.DeltaMergeBuilder",)),
    "api/delta-optimize-builder.md": (
        "DeltaOptimizeBuilder",
        ("anabranch.tables.optimize_builder.DeltaOptimizeBuilder",),
    ),
    "api/delta-table-builder.md": (
        "DeltaTableBuilder",
        ("anabranch.tables.delta_table.DeltaTableBuilder", "anabranch.tables.column_arguments.IdentityGenerator"),
    ),
    "api/exceptions.md": ("Conflicts, as exceptions", ()),
}
"""A page, its title, and the classes and functions that it documents."""

DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LABEL = re.compile(r'[\[({|"]+([^\[\](){}|"]+)[\])}|"]+|:\s*(.+)$', re.MULTILINE)
TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
LINK = re.compile(r"(?<=\]\()([^)#:\s]+)((?:#[^)\s]*)?)(?=\))")
FENCE = re.compile(r"^(\s*)```.*?^\1```$", re.DOTALL | re.MULTILINE)
LANGUAGES = {".md": "markdown", ".py": "python", ".java": "java", ".toml": "toml", ".sh": "bash", ".yml": "yaml"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in `docs`."""
    for source, page in PROJECT_PAGES.items():
        if source != "README.md":
            files.append(File.generated(config, page, content=_moved(source, page)))
    for page, (title, objects) in API_PAGES.items():
        files.append(File.generated(config, page, content=_api_page(title, objects or _exceptions())))
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        files.remove(notebook)
        text = _notebook_page(json.loads(notebook.content_string))
        files.append(File.generated(config, _as_page(notebook.src_uri), content=text))
    for target in sorted(_linked_sources(files)):
        text, unlisted = _source_text(target), InclusionLevel.NOT_IN_NAV
        files.append(File.generated(config, _source_page(target), content=text, inclusion=unlisted))
    for file in list(files.documentation_pages()):
        for diagram in DIAGRAM.findall(file.content_string):
            if files.get_file_from_path(_picture(diagram)) is None:
                files.append(File.generated(config, _picture(diagram), content=_drawn(diagram)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Point links at the pages of the site, and diagrams at their pictures."""
    here = page.file.src_uri
    markdown = _with_links(markdown, here)
    return DIAGRAM.sub(lambda match: f"![{_described(match[1])}]({_relative(_picture(match[1]), here)})", markdown)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:  # noqa: ARG001
    """Add what keyboards and screen readers need, and the theme forgets: tables that scroll, the name of the search."""
    output = TABLE.sub(
        lambda table: table[0] if "<a " in table[0] else table[0].replace(">", ' tabindex="0">', 1), output
    )
    return output.replace(
        'data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"'
    )


# Links.


def _with_links(markdown: str, here: str) -> str:
    """The text with links that lead out of `docs`, or to a notebook, pointed at pages of the site."""

    def pointed(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(here), match[1]))
        return _relative(_site_page(target), here) + match[2] if _site_page(target) else match[0]

    parts, end = [], 0
    for fence in FENCE.finditer(markdown):
        parts += [LINK.sub(pointed, markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, LINK.sub(pointed, markdown[end:])])


def _site_page(target: str) -> str | None:
    """The page of the site for a file of the project, or None where MkDocs knows it by itself."""
    if target in PROJECT_PAGES:
        return PROJECT_PAGES[target]
    if target.startswith("docs/"):
        return _as_page(target.removeprefix("docs/")) if target.endswith(".ipynb") else None
    return _source_page(target) if (ROOT / target).is_file() else None


def _moved(source: str, page: str) -> str:
    """A page from the root of the project, with links as from its place in the site."""
    text = (ROOT / source).read_text("utf-8")

    def pointed(match: re.Match[str]) -> str:
        target = posixpath.normpath(match[1])
        return _relative(_site_page(target) or target.removeprefix("docs/"), page) + match[2]

    return LINK.sub(pointed, text)


def _linked_sources(files: Files) -> set[str]:
    """The files of the project, other than pages, to which pages have links."""
    linked = set()
    for file in files.documentation_pages():
        base = posixpath.join("docs", posixpath.dirname(file.src_uri))
        texts = FENCE.sub("", file.content_string)
        linked |= {posixpath.normpath(posixpath.join(base, target)) for target, _ in LINK.findall(texts)}
    for source in PROJECT_PAGES:
        linked |= {posixpath.normpath(target) for target, _ in LINK.findall((ROOT / source).read_text("utf-8"))}
    return {
        target
        for target in linked
        if not target.startswith((".", "docs/")) and target not in PROJECT_PAGES and (ROOT / target).is_file()
    }


def _source_page(target: str) -> str:
    return f"source/{target}.md"


def _source_text(target: str) -> str:
    text = (ROOT / target).read_text("utf-8")
    language = LANGUAGES.get(Path(target).suffix, "text")
    return f"# {target}\n\n````{language}\n{text}\n````\n"


def _relative(target: str, page: str) -> str:
    return posixpath.relpath(target, posixpath.dirname(page) or ".")


def _as_page(notebook: str) -> str:
    return notebook.removesuffix(".ipynb") + ".md"


# Docstrings.


def _api_page(title: str, objects: tuple[str, ...]) -> str:
    """The title, and the docstrings; of a class that has the page to itself the title is the heading."""
    options = "\n    options:\n      show_root_heading: false\n      show_root_toc_entry: false"
    alone = options if len(objects) == 1 else ""
    return "\n\n".join([f"# {title}", *(f"::: {name}{alone}" for name in objects)]) + "\n"


def _exceptions() -> tuple[str, ...]:
    """The exceptions of `anabranch.exceptions`, which re-exports them."""
    source = (ROOT / "src" / "anabranch" / "exceptions.py").read_text("utf-8")
    names = re.findall(r"^    (\w+),$", source, re.MULTILINE)
    if not names:
        raise PluginError("anabranch.exceptions exports nothing that this script recognizes")
    return tuple(f"anabranch.errors.commits.{name}" for name in names)


# Diagrams.


def _picture(diagram: str) -> str:
    return f"diagrams/{hashlib.sha256(diagram.encode()).hexdigest()[:16]}.svg"


@functools.cache
def _drawn(diagram: str) -> str:
    return str(mermaidx.render(diagram).svg())


def _described(diagram: str) -> str:
    """What a reader who does not see the picture gets: its labels, in order."""
    labels = [" ".join((inside or after).replace("<br/>", " ").split()) for inside, after in LABEL.findall(diagram)]
    return "Diagram: " + "; ".join(dict.fromkeys(label for label in labels if label))


# The notebook.


def _notebook_page(notebook: dict[str, Any]) -> str:
    """Its text, its code, and after each piece of code what it printed."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        else:
            parts.append(f"```python\n{source}\n```")
            printed = "".join(_printed(output) for output in cell["outputs"])
            if printed.strip():
                parts.append(f"```output\n{printed.rstrip()}\n```")
    return "\n\n".join(parts) + os.linesep


def _printed(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream":
        return "".join(output["text"]) if output["name"] == "stdout" else ""
    return "".join(output.get("data", {}).get("text/plain", [])) + "\n"
