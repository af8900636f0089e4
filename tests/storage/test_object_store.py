"""What only a service over a network can do wrong."""

from __future__ import annotations

import logging
import threading
import traceback
from typing import Any

import obstore
import pytest

from anabranch.errors.environment import (
    ConditionalPutUnsupportedError,
    CredentialsMissingError,
    FileMissingError,
    PathOutsideTableError,
    StorageError,
)
from anabranch.storage.log_store import LogStore, PutOutcome
from anabranch.storage.object import object_store, object_tree
from anabranch.storage.object.conditional_put_probe import ConditionalPutProbe
from anabranch.storage.opening.store_opening import open_store
from storage.services import SECRET_KEY, SETTINGS, FaultyS3, s3_store

NAME = "_delta_log/0.json"


@pytest.fixture(autouse=True)
def _forget_what_services_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "_PROBE", ConditionalPutProbe())


@pytest.fixture
def front(faulty_s3: tuple[FaultyS3, str]) -> FaultyS3:
    return faulty_s3[0]


@pytest.fixture
def store(faulty_s3: tuple[FaultyS3, str]) -> LogStore:
    return s3_store(faulty_s3[1])


def is_put_of(environ: dict[str, Any], name: str = NAME) -> bool:
    return bool(environ["REQUEST_METHOD"] == "PUT" and environ["PATH_INFO"].endswith(name))


def test_a_service_that_ignores_the_condition_is_detected(front: FaultyS3, store: LogStore) -> None:
    def strip(environ: dict[str, Any]) -> None:
        environ.pop("HTTP_IF_NONE_MATCH", None)

    front.before = strip
    with pytest.raises(ConditionalPutUnsupportedError) as caught:
        store.put_if_absent(NAME, b"x")
    assert "overwrites nevertheless" in str(caught.value)
    assert store.root in str(caught.value)
    assert "http://127.0.0.1:" in str(caught.value)
    assert not any(path.endswith(NAME) for path in front.puts)
    assert [path for path in front.puts if ".anabranch-probe-" not in path] == []
    assert list(store.list_tree()) == []
    assert keys_of(store) == []

    store.put("data", b"x")
    assert store.read("data") == b"x", "reading and unconditional writes still work"


def keys_of(store: Any) -> list[str]:
    """Everything that is really there, scratch objects included."""
    prefix = store.root.split("/", 3)[3]
    return [meta["path"] for page in obstore.list(store._client, prefix) for meta in page]


@pytest.mark.parametrize("status", ["501 Not Implemented"])
def test_a_service_that_knows_no_condition_is_refused(front: FaultyS3, store: LogStore, status: str) -> None:
    front.before = lambda environ: status if "HTTP_IF_NONE_MATCH" in environ else None
    with pytest.raises(ConditionalPutUnsupportedError, match="does not support conditional puts"):
        store.put_if_absent(NAME, b"x")


def test_a_good_answer_is_remembered_for_the_bucket(front: FaultyS3, store: LogStore, faulty_s3: Any) -> None:
    store.put_if_absent(NAME, b"x")
    s3_store(faulty_s3[1]).put_if_absent(NAME, b"x")
    assert sum(".anabranch-probe-" in path for path in front.puts) == 2
    assert len(front.puts) == 4
    assert len(keys_of(store)) == 1, "the scratch object is gone"


def test_sixteen_first_writers_probe_the_store_once(front: FaultyS3, store: LogStore) -> None:
    outcomes = []
    threads = [threading.Thread(target=lambda: outcomes.append(store.put_if_absent(NAME, b"x"))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(".anabranch-probe-" in path for path in front.puts) == 2
    assert outcomes.count(PutOutcome.CREATED) == 1
    assert len(outcomes) == 16


def test_nothing_is_written_while_the_probe_is_unclear(front: FaultyS3, store: LogStore) -> None:
    front.before = lambda environ: "503 Slow Down" if environ["REQUEST_METHOD"] == "PUT" else None
    with pytest.raises(StorageError, match="it is unclear whether"):
        store.put_if_absent(NAME, b"x")
    assert not any(path.endswith(NAME) for path in front.puts)
    front.before = lambda environ: None
    assert store.put_if_absent(NAME, b"x") is PutOutcome.CREATED, "a bad moment is not remembered"


def test_reading_sends_no_probe(front: FaultyS3, store: LogStore) -> None:
    list(store.list_from("_delta_log"))
    store.head(NAME)
    assert front.puts == []


@pytest.mark.parametrize("status", ["500 Internal Server Error", "503 Slow Down", "429 Too Many Requests"])
@pytest.mark.parametrize("applied", [True, False])
def test_a_server_error_leaves_the_outcome_unknown(
    front: FaultyS3, store: LogStore, status: str, applied: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Covers faults F15, F16 and F20."""

    def fail(environ: dict[str, Any]) -> str | None:
        return status if is_put_of(environ) else None

    if applied:
        front.after = fail
    else:
        front.before = fail
    with caplog.at_level(logging.WARNING):
        assert store.put_if_absent(NAME, b"x") is PutOutcome.UNKNOWN
    assert "unknown" in caplog.text
    front.before = front.after = lambda environ: None
    assert (store.head(NAME) is not None) is applied
    assert sum(path.endswith(NAME) for path in front.puts) == 1, (
        "one attempt: a second would hide the outcome of the first"
    )
    assert store.put_if_absent(NAME, b"x") is (PutOutcome.EXISTS if applied else PutOutcome.CREATED)


def test_a_conflict_of_requests_is_no_proof_of_a_file(front: FaultyS3, store: LogStore) -> None:
    """Covers fault F19."""
    front.before = lambda environ: "409 Conflict" if is_put_of(environ) else None
    assert store.put_if_absent(NAME, b"x") is PutOutcome.UNKNOWN
    assert store.head(NAME) is None

    front.before = lambda environ: None
    store.put_if_absent(NAME, b"theirs")
    front.before = lambda environ: "409 Conflict" if is_put_of(environ) else None
    assert store.put_if_absent(NAME, b"ours") is PutOutcome.EXISTS


@pytest.mark.parametrize("status", ["403 Forbidden", "400 Bad Request", "401 Unauthorized"])
def test_a_refusal_is_an_error(front: FaultyS3, store: LogStore, status: str) -> None:
    front.before = lambda environ: status if is_put_of(environ) else None
    with pytest.raises(StorageError, match="as planned") as caught:
        store.put_if_absent(NAME, b"x")
    assert not isinstance(caught.value, FileMissingError)
    front.before = lambda environ: None
    assert store.head(NAME) is None


def test_a_connection_that_breaks_after_the_put_is_unknown(front: FaultyS3, store: LogStore) -> None:
    """Covers fault F16."""

    def break_off(environ: dict[str, Any]) -> None:
        if is_put_of(environ):
            environ["werkzeug.socket"].shutdown(2)

    store.put_if_absent("warm", b"")
    front.after = break_off  # type: ignore[assignment]
    assert store.put_if_absent(NAME, b"x") is PutOutcome.UNKNOWN
    front.after = lambda environ: None
    assert store.read(NAME) == b"x"


def test_no_service_at_all() -> None:
    store = s3_store("http://127.0.0.1:1")
    with pytest.raises(StorageError, match="error sending request"):
        store.put_if_absent(NAME, b"x")


def test_a_bucket_that_is_not_there(faulty_s3: tuple[FaultyS3, str]) -> None:
    store = open_store("s3a://no-such-bucket/t", {**SETTINGS, "fs.s3a.endpoint": faulty_s3[1]})
    for operation in (
        lambda: store.read(NAME),
        lambda: list(store.list_from("_delta_log")),
        lambda: store.put_if_absent(NAME, b"x"),
        lambda: store.put(NAME, b"x"),
    ):
        with pytest.raises(StorageError, match="NoSuchBucket") as caught:
            operation()
        assert not isinstance(caught.value, FileMissingError)


def test_a_short_answer_is_an_error(front: FaultyS3, store: LogStore) -> None:
    """Covers fault F24."""
    store.put("data", b"0123456789")
    with pytest.raises(StorageError):
        store.read_range("data", 5, 10)


def test_reads_are_tried_again(front: FaultyS3, store: LogStore) -> None:
    """Covers fault F20."""
    store.put("data", b"x")
    answers = iter(["503 Slow Down", "500 Internal Server Error"])
    front.before = lambda environ: next(answers, None) if environ["REQUEST_METHOD"] == "GET" else None
    assert store.read("data") == b"x"


def test_a_log_with_many_sidecars_lists_in_a_few_requests(
    front: FaultyS3, store: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        store.put(f"_delta_log/_sidecars/{number:04d}.parquet", b"")
        store.put(f"_delta_log/deep/er/{number:04d}", b"")
    for name in ("0.json", "_last", "_sidecars0", "deep-", "deep0", "zebra"):
        store.put(f"_delta_log/{name}", b"")
    monkeypatch.setattr(object_store, "_PAGE_SIZE", 10)
    names = [file.path.removeprefix("_delta_log/") for file in store.list_from("_delta_log")]
    assert names == ["0.json", "_last", "_sidecars0", "deep-", "deep0", "zebra"]
    assert [file.path for file in store.list_from("_delta_log", "deep")] == [
        *("_delta_log/deep-", "_delta_log/deep0", "_delta_log/zebra"),
    ]


def test_a_service_that_lists_from_the_first_name(
    front: FaultyS3, store: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Azurite does, whichever name the request begins with."""
    for number in range(30):
        store.put(f"_delta_log/_sidecars/{number:04d}.parquet", b"")
    for name in ("0.json", "_last", "_sidecars0", "zebra"):
        store.put(f"_delta_log/{name}", b"")
    monkeypatch.setattr(object_store, "_PAGE_SIZE", 10)
    monkeypatch.setattr(object_tree, "PAGE_SIZE", 10)

    def without_start(environ: dict[str, Any]) -> None:
        parts = environ.get("QUERY_STRING", "").split("&")
        environ["QUERY_STRING"] = "&".join(part for part in parts if not part.startswith("start-after="))

    front.before = without_start
    assert [file.path for file in store.list_from("_delta_log", "_last")] == [
        *("_delta_log/_sidecars0", "_delta_log/zebra"),
    ]
    names = [file.path.removeprefix("_delta_log/") for file in store.list_from("_delta_log")]
    assert names == ["0.json", "_last", "_sidecars0", "zebra"]
    walked = [path for page in store.walk(lambda directory: True) for path in page["path"].to_pylist()]
    assert len(walked) == len(set(walked)) == 34


def test_a_service_that_lists_without_order(faulty_s3: tuple[FaultyS3, str], monkeypatch: pytest.MonkeyPatch) -> None:
    import dataclasses

    ordered: Any = s3_store(faulty_s3[1])
    options = dataclasses.replace(ordered._options, lists_in_order=False)
    store = object_store.ObjectStore(ordered.root, prefix=ordered._prefix, options=options)
    for name in "cab":
        store.put(f"_delta_log/{name}", b"")
    assert [file.path[-1] for file in store.list_from("_delta_log")] == ["a", "b", "c"]
    assert [file.path[-1] for file in store.list_from("_delta_log", "a")] == ["b", "c"]


@pytest.mark.parametrize("name", ["tab\tx", "line\nbreak", "del\x7f"])
def test_names_that_no_service_takes(store: LogStore, name: str) -> None:
    with pytest.raises(PathOutsideTableError, match="control character"):
        store.put(name, b"")


def test_a_prefix_does_not_reach_its_neighbour(faulty_s3: tuple[FaultyS3, str]) -> None:
    ours, neighbour = s3_store(faulty_s3[1], "deep/table"), s3_store(faulty_s3[1], "deep/table2")
    neighbour.put("x", b"")
    assert list(ours.list_tree()) == []
    assert list(ours.list_from("")) == []
    ours.put("y", b"")
    assert [file.path for file in ours.list_tree()] == ["y"]


def test_secrets_stay_secret(front: FaultyS3, store: LogStore, caplog: pytest.LogCaptureFixture) -> None:
    """Covers attack A13: an answer that quotes everything it was sent still shows none of it."""
    quoted = f"<?xml version='1.0'?><Error><Code>X</Code><Message>{SECRET_KEY} moto-access</Message></Error>".encode()

    def reply_with_secrets(environ: dict[str, Any], start_response: Any) -> Any:
        start_response("403 Forbidden", [("Content-Type", "application/xml"), ("Content-Length", str(len(quoted)))])
        return [quoted]

    store.put_if_absent("warm", b"")
    front._moto = reply_with_secrets  # type: ignore[assignment]
    with caplog.at_level(logging.DEBUG):
        for operation in (
            lambda: store.read(NAME),
            lambda: store.put_if_absent(NAME, b""),
            lambda: store.put(NAME, b""),
            lambda: list(store.list_tree()),
        ):
            with pytest.raises(StorageError) as caught:
                operation()
            shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + repr(store)
            assert SECRET_KEY not in shown
            assert "moto-access" not in shown
            assert caught.value.__context__ is None
            assert "Forbidden" in shown
    assert SECRET_KEY not in caplog.text


NO_ROLE = "Error performing {request} in 2.6ms - Server returned non-2xx status code: 403 Forbidden"


@pytest.mark.parametrize(
    ("url", "request_text", "names"),
    [
        (
            "s3://bucket/t",
            "PUT http://169.254.169.254/latest/api/token",
            ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "fs.s3a.access.key", "AnonymousAWSCredentialsProvider"],
        ),
        (
            "gs://bucket/t",
            "GET http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token?…",
            ["GOOGLE_APPLICATION_CREDENTIALS", "fs.gs.auth.service.account.json.keyfile"],
        ),
        (
            "abfss://c@account.dfs.core.windows.net/t",
            "GET http://169.254.169.254/metadata/identity/oauth2/token?…",
            ["AZURE_STORAGE_ACCOUNT_KEY", "AZURE_CLIENT_ID", "fs.azure.account.key."],
        ),
    ],
)
def test_missing_credentials_are_said_with_what_to_set(
    url: str, request_text: str, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The texts are those of obstore, where the machine that it runs on has no role either."""
    store = open_store(url, {})

    def refuse(*_: Any, **__: Any) -> Any:
        raise obstore.exceptions.GenericError(NO_ROLE.format(request=request_text))

    monkeypatch.setattr(obstore, "get", refuse)
    with pytest.raises(CredentialsMissingError) as raised:
        store.read("_delta_log/_last_checkpoint")
    assert [name for name in [*names, "_delta_log/_last_checkpoint", store.root] if name not in str(raised.value)] == []
    assert "http://" not in str(raised.value)
