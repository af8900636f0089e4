"""The objects below a prefix, listed with as few requests one after the other as an ordered listing allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from anabranch.storage.file_tree import LISTERS, Enters, Entry
from anabranch.storage.paths import is_temporary, split_path

PAGE_SIZE = 1000
AFTER_ALL_NAMES = "\U0010ffff"
_WAITING_MAX = 4 * LISTERS

Page = Sequence[Entry]
ListPages = Callable[[str, str | None], Iterator[Page]]
"""Pages of what lies below a directory, of the names after an offset within it."""


def walk(pages: ListPages, enters: Enters, *, in_order: bool) -> Iterator[Entry]:
    """Every object below the root. Where a page ends inside a directory of the root, that one is listed by another
    thread, and the root's listing goes on behind it; one that `enters` declines costs a request and no more.

    A storage that lists in no order is listed from end to end.
    """
    if not in_order:
        for page in pages("", None):
            yield from _shown(page, enters)
        return
    with ThreadPoolExecutor(max_workers=LISTERS, thread_name_prefix="anabranch-list") as pool:
        waiting: list[Future[list[Entry]]] = []
        offset: str | None = None
        while True:
            cut = None
            for page in pages("", offset):
                cut = _cut_directory(page)
                whole = page if cut is None else [entry for entry in page if not entry[0].startswith(f"{cut}/")]
                yield from _shown(whole, enters)
                if cut is not None:
                    break
            if cut is None:
                break
            if enters(cut):
                waiting.append(pool.submit(_below, pages, cut))
            while len(waiting) > _WAITING_MAX:
                yield from _shown(waiting.pop(0).result(), enters)
            offset = f"{cut}/{AFTER_ALL_NAMES}"
        for each in waiting:
            yield from _shown(each.result(), enters)


def _below(pages: ListPages, directory: str) -> list[Entry]:
    return [entry for page in pages(directory, None) for entry in page]


def _cut_directory(page: Page) -> str | None:
    """The directory of the root within which a full page ends."""
    if len(page) < PAGE_SIZE:
        return None
    first, slash, _ = page[-1][0].partition("/")
    return first if slash else None


def _shown(page: Page, enters: Enters) -> Iterator[Entry]:
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
