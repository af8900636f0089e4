"""Which texts may be statements of ours, told by a regular expression alone."""

from __future__ import annotations

from collections.abc import Iterable

from anabranch.sql.own.own_forms import FORMS_OF_DELTA, FORMS_OF_LATER_SPARK, OwnForm

_SPACE = r"[\s\u001c-\u001f\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"


def first_words(forms: Iterable[OwnForm]) -> str:
    """A regular expression of Java and of Python, ignoring case, `.` any character, to be found from the start.

    It matches every statement of the forms, and few other texts. A text that it does not match costs one look at its
    first word; behind a comment and behind EXPLAIN, any text is matched that has a word of ours somewhere.
    """
    words: dict[str, list[str]] = {}
    for form in forms:
        words.setdefault(form.begins, []).append(form.word)
    branches = [rf"(?:{begins})\b{_followed_by(further)}" for begins, further in words.items()]
    anywhere = [form.word or form.begins for form in forms]
    branches.append(rf"(?:--|/\*|EXPLAIN\b){_followed_by(anywhere)}")
    return f"^{_SPACE}*(?:{'|'.join(branches)})"


def _followed_by(words: list[str]) -> str:
    if "" in words:
        return ""
    return rf"(?=.*\b(?:{'|'.join(dict.fromkeys(words))})\b)"


FIRST_WORDS = first_words((*FORMS_OF_DELTA, *FORMS_OF_LATER_SPARK))
"""Matches every text that may be ours beside some release of Spark, and few others; see `first_words`."""
