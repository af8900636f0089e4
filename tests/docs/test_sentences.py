"""Sentences that readers did not understand, so that they do not come back."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
STOPPED_READERS = (
    "How to say what a table takes",
    "Where nobody understands it",
    "believes any certificate",
    "is none that Spark takes",
    "has left is kept for some minutes",
    "files only of earlier versions, by the tombstones",
    "says nothing, or what is true",
    "Who states all anew",
    "be there none",
)


def test_sentences_that_stopped_readers_are_gone() -> None:
    """Covers bug B99."""
    texts = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py"), *ROOT.glob("*.md")]
    read = {path.relative_to(ROOT).as_posix(): " ".join(path.read_text("utf-8").split()) for path in texts}
    stopped = [(path, sentence) for path, text in read.items() for sentence in STOPPED_READERS if sentence in text]
    assert stopped == []
