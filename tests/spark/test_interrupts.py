"""Ctrl-C at each depth of calls and answers, by real signals to this very process; Spark's part is a plain function.

What a user sees of it with Spark: tests/extension/test_processes.py.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from anabranch.spark.gateway import interrupts
from anabranch.spark.gateway.interrupts import Interrupts


class Client:
    """The client of a gateway: each call runs the function that it is given."""

    def send_command(self, command: Callable[[], Any], retry: bool = True, binary: bool = False) -> Any:
        return command()


class Watched:
    """A client whose calls are watched."""

    def __init__(self) -> None:
        self.client = Client()
        self.cancelled: list[float] = []
        self.interrupts = Interrupts(self.client, lambda: self.cancelled.append(time.monotonic()))

    def call(self, work: Callable[[], Any]) -> Any:
        """Python calls the JVM, which does `work`."""
        return self.client.send_command(work)

    def answer(self, work: Callable[[], Any]) -> Any:
        """A callback of the JVM, as in the endpoint: an error is a value."""
        try:
            with self.interrupts.answering():
                return work()
        except BaseException as error:
            with self.interrupts.ending():
                return error


def press() -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.fixture
def jvm() -> Iterator[Watched]:
    watched = Watched()
    watched.interrupts.begin()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield watched
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert watched.call(lambda: "the next call") == "the next call"
    finally:
        signal.signal(signal.SIGINT, before)
        watched.interrupts.end()
    assert "send_command" not in vars(watched.client)


def test_code_that_answers_is_interrupted_where_it_is(jvm: Watched) -> None:
    reached: list[str] = []

    def work() -> None:
        press()
        reached.append("behind")

    def asks() -> None:
        reached.append(type(jvm.answer(work)).__name__)

    with pytest.raises(KeyboardInterrupt):
        jvm.call(asks)
    assert reached == ["KeyboardInterrupt"]
    assert jvm.cancelled


def test_a_call_of_an_answer_ends_first(jvm: Watched) -> None:
    """Its connection is in use; then the answer gets no further, and cleans up undisturbed."""
    reached: list[str] = []

    def job() -> None:
        press()
        reached.append("the call came back")

    def work() -> None:
        try:
            jvm.call(job)
            reached.append("the statement went on")
        finally:
            jvm.call(lambda: reached.append("cleaned up"))

    with pytest.raises(KeyboardInterrupt):
        jvm.call(lambda: jvm.answer(work))
    assert reached == ["the call came back", "cleaned up"]


def test_what_a_cancelled_job_raises_is_not_seen(jvm: Watched) -> None:
    def job() -> None:
        press()
        raise ValueError("Job 3 cancelled")

    answers: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        jvm.call(lambda: answers.append(jvm.answer(lambda: jvm.call(job))))
    assert isinstance(answers[0], KeyboardInterrupt)


def test_answers_within_answers_all_stop(jvm: Watched) -> None:
    reached: list[str] = []

    def outer() -> None:
        jvm.call(lambda: jvm.answer(press))
        reached.append("behind")

    with pytest.raises(KeyboardInterrupt):
        jvm.call(lambda: jvm.answer(outer))
    assert reached == []


def test_an_answer_on_its_way_out_arrives(jvm: Watched) -> None:
    arrived: list[Any] = []

    def asks() -> None:
        with jvm.interrupts.ending():
            jvm.call(press)
            arrived.append("the answer")

    with pytest.raises(KeyboardInterrupt):
        jvm.call(asks)
    assert arrived == ["the answer"]


def test_notes_of_the_commit_are_kept(jvm: Watched) -> None:
    def work() -> None:
        try:
            press()
        except KeyboardInterrupt as interrupt:
            interrupt.add_note("had landed")

    with pytest.raises(KeyboardInterrupt) as raised:
        jvm.call(lambda: jvm.answer(work))
    assert raised.value.__notes__ == ["had landed"]


def test_a_call_alone_is_abandoned_in_the_end(jvm: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "ABANDON_SECONDS", 0.1)

    def lasts() -> None:
        press()
        time.sleep(60)

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        jvm.call(lasts)
    assert time.monotonic() - begun < 30


def test_a_call_alone_may_come_back_by_itself(jvm: Watched) -> None:
    reached: list[str] = []

    def returns() -> None:
        press()
        reached.append("back")

    with pytest.raises(KeyboardInterrupt):
        jvm.call(returns)
    assert reached == ["back"]


def test_a_second_signal_is_obeyed_at_once(jvm: Watched) -> None:
    reached: list[str] = []

    def job() -> None:
        press()
        reached.append("first")
        press()
        reached.append("second")

    with pytest.raises(KeyboardInterrupt):
        jvm.call(lambda: jvm.answer(lambda: jvm.call(job)))
    assert reached == ["first"]


def test_jobs_are_cancelled_until_the_call_is_back(jvm: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those too that start later, and none that the user starts next."""
    monkeypatch.setattr(interrupts, "CANCEL_SECONDS", 0.01)

    def job() -> None:
        press()
        while len(jvm.cancelled) < 3:
            time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        jvm.call(lambda: jvm.answer(lambda: jvm.call(job)))
    count = len(jvm.cancelled)
    time.sleep(0.1)
    assert len(jvm.cancelled) == count


def test_a_handler_of_the_program_decides(jvm: Watched) -> None:
    seen: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    try:
        assert jvm.call(lambda: jvm.answer(lambda: press() or "done")) == "done"
        assert (seen, jvm.cancelled) == ([signal.SIGINT], [])

        def leave(number: int, _: Any) -> None:
            raise SystemExit(3)

        signal.signal(signal.SIGINT, leave)
        with pytest.raises(SystemExit):
            jvm.call(lambda: jvm.answer(lambda: jvm.call(press)))
        assert signal.getsignal(signal.SIGINT) is leave
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def test_an_ignored_signal_stays_ignored(jvm: Watched) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert jvm.call(lambda: jvm.answer(lambda: press() or "done")) == "done"
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def test_other_threads_pass(jvm: Watched) -> None:
    answers: list[Any] = []

    def work() -> None:
        answers.append(jvm.call(lambda: jvm.answer(lambda: jvm.call(lambda: "done"))))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert answers == ["done"]
