"""A regular expression that recognizes texts which may be statements of our grammar."""

from __future__ import annotations

from collections.abc import Iterable

from anabranch.sql.own.own_forms import FORMS_OF_DELTA, FORMS_OF_LATER_SPARK, FORMS_OF_TRANSACTIONS, OwnForm

_SPACE = r"[\s\u001c-\u001f\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"


def first_words(forms: Iterable[OwnForm]) -> str:
    """A regular expression for Java and Python, to be matched at the start, ignoring case, with `.` for any character.

    It matches every statement of the forms, and few other texts. Most other texts fail at their first word. After a
    comment or EXPLAIN, it matches all texts with one of the words anywhere.
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


FIRST_WORDS = first_words((*FORMS_OF_DELTA, *FORMS_OF_LATER_SPARK, *FORMS_OF_TRANSACTIONS))
"""Matches every text that our grammar may read with some release of Spark, and few others; see `first_words`."""
