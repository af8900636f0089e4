"""Listing all objects below a prefix, with as few sequential requests as a sorted listing allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from anabranch.storage.file_tree import LISTERS, Enters, Entry
from anabranch.storage.log_store import is_temporary, split_path

PAGE_SIZE = 1000
AFTER_ALL_NAMES = "\U0010ffff"
_WAITING_MAX = 4 * LISTERS

Page = Sequence[Entry]
ListPages = Callable[[str, str | None], Iterator[Page]]
"""A function from a directory and an offset in it to pages of the objects after the offset."""


def walk(pages: ListPages, enters: Enters, *, in_order: bool) -> Iterator[Entry]:
    """Every object below the root. Where a page ends inside a directory of the root, another thread lists that
    directory, and the listing of the root continues after it. A directory for which `enters` is false takes one
    request at most.

    If the storage does not sort listings, they are read from beginning to end.
    """
    if not in_order:
        for page in pages("", None):
            yield from _entered(page, enters)
        return
    with ThreadPoolExecutor(max_workers=LISTERS, thread_name_prefix="anabranch-list") as pool:
        waiting: list[Future[list[Entry]]] = []
        offset: str | None = None
        while True:
            split_directory = None
            for page in pages("", offset):
                split_directory = _split_directory(page)
                outside = (
                    page
                    if split_directory is None
                    else [entry for entry in page if not entry[0].startswith(f"{split_directory}/")]
                )
                yield from _entered(outside, enters)
                if split_directory is not None:
                    break
            if split_directory is None:
                break
            if enters(split_directory):
                waiting.append(pool.submit(_below, pages, split_directory))
            while len(waiting) > _WAITING_MAX:
                yield from _entered(waiting.pop(0).result(), enters)
            offset = f"{split_directory}/{AFTER_ALL_NAMES}"
        for listing in waiting:
            yield from _entered(listing.result(), enters)


def _below(pages: ListPages, directory: str) -> list[Entry]:
    return [entry for page in pages(directory, None) for entry in page]


def _split_directory(page: Page) -> str | None:
    """The directory of the root inside which a full page ends, if any."""
    if len(page) < PAGE_SIZE:
        return None
    first, slash, _ = page[-1][0].partition("/")
    return first if slash else None


def _entered(page: Page, enters: Enters) -> Iterator[Entry]:
    declined: dict[str, bool] = {}
    for entry in page:
        first, slash, _ = entry[0].partition("/")
        if slash:
            if first not in declined:
                declined[first] = not enters(first)
            if declined[first]:
                continue
        if entry[0] and not is_temporary(split_path(entry[0])[1]):
            yield entry
