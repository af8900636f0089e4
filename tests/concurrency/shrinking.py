"""A history that shows a fault, made as small as it gets while it still shows one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from concurrency.histories import History
from concurrency.several_statements import SeveralStatements

ROUNDS_MAX = 200


def shrunk(history: History, shows: Callable[[History], bool]) -> History:
    """The smallest of its relatives that `shows` a fault, found greedily."""
    for _ in range(ROUNDS_MAX):
        smaller = next((smaller for smaller in _smaller(history) if shows(smaller)), None)
        if smaller is None:
            return history
        history = smaller
    return history


def _smaller(history: History) -> Iterator[History]:
    for number in range(len(history.statements)):
        yield _without_statement(history, number)
    yield from _shorter_transactions(history)
    for file in range(len(history.files)):
        if len(history.files) > 1:
            yield history.with_files(history.files[:file] + history.files[file + 1 :])
        for row in range(len(history.files[file])):
            rows = history.files[file][:row] + history.files[file][row + 1 :]
            if rows:
                files = (*history.files[:file], rows, *history.files[file + 1 :])
                yield history.with_files(files)
    yield from _sooner(history)


def _without_statement(history: History, number: int) -> History:
    return dataclasses.replace(
        history,
        statements=history.statements[:number] + history.statements[number + 1 :],
        schedule=tuple(smaller - (smaller > number) for smaller in history.schedule if smaller != number),
    )


def _shorter_transactions(history: History) -> Iterator[History]:
    """A transaction of several statements has one less, or runs them together."""
    for number, statement in enumerate(history.statements):
        if not isinstance(statement, SeveralStatements):
            continue
        for step in range(len(statement.steps)):
            steps = statement.steps[:step] + statement.steps[step + 1 :]
            shorter = dataclasses.replace(statement, steps=steps)
            statements = (*history.statements[:number], shorter, *history.statements[number + 1 :])
            if steps:
                yield dataclasses.replace(history, statements=statements)
        _, *between, _ = [index for index, scheduled in enumerate(history.schedule) if scheduled == number]
        for index in between:
            yield dataclasses.replace(history, schedule=history.schedule[:index] + history.schedule[index + 1 :])


def _sooner(history: History) -> Iterator[History]:
    """A statement commits right after it has read, as far as that changes anything."""
    for number in range(len(history.statements)):
        first, last = history.schedule.index(number), len(history.schedule) - 1 - history.schedule[::-1].index(number)
        if last > first + 1:
            others = history.schedule[:last] + history.schedule[last + 1 :]
            yield dataclasses.replace(history, schedule=(*others[: first + 1], number, *others[first + 1 :]))
