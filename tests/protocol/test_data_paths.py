"""Paths in the log lead to files of the table and nowhere else. Covers attacks A1, A2 and A5."""

from __future__ import annotations

import itertools
import posixpath
from collections.abc import Callable
from urllib.parse import quote

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors.protocol import UnsafePathError
from anabranch.protocol.data_paths import (
    DataPath,
    decode_path,
    decode_path_column,
    decode_sidecar_path,
    encode_path,
    locate,
)

ROOT = "/data/tables/t"
BUCKET = "s3a://bucket/warehouse/t"


def test_spelling_is_that_of_java() -> None:
    """What `new org.apache.hadoop.fs.Path(p).toUri().toString()` gives for every ASCII character."""
    ascii_characters = "".join(chr(code) for code in range(1, 128) if chr(code) not in "/:")
    assert encode_path(f"x{ascii_characters}y") == (
        "x%01%02%03%04%05%06%07%08%09%0A%0B%0C%0D%0E%0F%10%11%12%13%14%15%16%17%18%19%1A%1B%1C%1D%1E%1F%20!%22%23$%25"
        "&'()*+,-.0123456789;%3C=%3E%3F@ABCDEFGHIJKLMNOPQRSTUVWXYZ%5B%5C%5D%5E_%60abcdefghijklmnopqrstuvwxyz%7B%7C%7D~"
        "%7Fy"
    )


def test_java_encodes_only_spaces_and_controls_beyond_ascii() -> None:
    probed = [*range(0x80, 0x250), *range(0x1FF0, 0x2070), 0x1680, 0x180E, 0x3000, 0xFEFF, 0x1F600, 0x10FFFF, 0xE000]
    encoded = [code for code in probed if encode_path(chr(code)) != chr(code)]
    assert encoded == [
        *range(0x80, 0xA1),
        *range(0x2000, 0x200B),
        0x2028,
        0x2029,
        0x202F,
        0x205F,
        0x1680,
        0x3000,
    ]


@pytest.mark.parametrize(
    ("plain", "uri"),
    [
        ("part 1.parquet", "part%201.parquet"),
        ("a%3Db/f", "a%253Db/f"),
        ("day=2024-01-01/f", "day=2024-01-01/f"),
        ("d/a:b=c", "d/a:b=c"),
        ("a:b/c", "a%3Ab/c"),
        ("a+b", "a+b"),
        ("ä/日本", "ä/日本"),
        ("q?#x", "q%3F%23x"),
    ],
)
def test_examples_both_ways(plain: str, uri: str) -> None:
    assert encode_path(plain) == uri
    assert decode_path(uri, table_root=ROOT) == plain


SEGMENT = st.text(st.characters(exclude_characters="/\\\0", exclude_categories=["Cs"]), min_size=1, max_size=12).filter(
    lambda segment: segment not in {".", "..", "_delta_log"}
)


@given(st.lists(SEGMENT, min_size=1, max_size=4).map("/".join), st.sampled_from([ROOT, BUCKET, "/", "memory:/t"]))
def test_encoding_and_decoding_give_the_path_back(plain: str, root: str) -> None:
    uri = encode_path(plain)
    assert decode_path(uri, table_root=root) == plain
    assert decode_path_column(pa.array([uri, "f"]), table_root=root).to_pylist() == [plain, "f"]
    # Writers that encode more than Java does mean the same file.
    assert decode_path(quote(plain), table_root=root) == plain


def test_absolute_paths_inside_the_table_are_relative_to_it() -> None:
    for uri in (f"{ROOT}/a%20b", f"file:{ROOT}/a%20b", f"file://{ROOT}/a%20b", f"FILE://{ROOT}//./a%20b"):
        assert locate(uri, table_root=ROOT) == DataPath(relative="a b", absolute=f"{ROOT}/a b")
        assert decode_path(uri, table_root=f"file:{ROOT}/") == "a b"
    for uri in (f"{BUCKET}/a", BUCKET.replace("s3a", "s3") + "/a", BUCKET.replace("s3a", "S3N") + "/a"):
        assert locate(uri, table_root=BUCKET) == DataPath(relative="a", absolute=f"{BUCKET}/a")


def test_other_directories_only_by_prefix() -> None:
    source = "s3://other/source table"
    uri = "s3a://other/source%20table/p=1/f.parquet"
    with pytest.raises(UnsafePathError, match="outside"):
        decode_path(uri, table_root=BUCKET)
    path = locate(uri, table_root=BUCKET, allowed_prefixes=["/x", source])
    assert path == DataPath(relative=None, absolute=f"{source}/p=1/f.parquet")
    assert decode_path(uri, table_root=BUCKET, allowed_prefixes=[source]) == f"{source}/p=1/f.parquet"
    for sibling in ("s3a://other/source%20table2/f", "s3a://other/source%20table", "s3a://else/source%20table/f"):
        with pytest.raises(UnsafePathError):
            decode_path(sibling, table_root=BUCKET, allowed_prefixes=[source])


def _attacks() -> list[str]:
    """Ways out of a directory, in the disguises that parsers have fallen for."""
    ups = ["..", "%2e%2e", "%2E.", ".%2e", "%2E%2e"]
    slashes = ["/", "%2f", "%2F", "//", "/./"]
    climbs = [
        f"{prefix}{up}{slash}{target}"
        for up, slash, prefix, target in itertools.product(ups, slashes, ["", "a/", "p=1/"], ["secret", "../t2/f"])
    ]
    # A single `..` that stays inside is refused too: a store may resolve it before we do.
    inside = [f"a/{up}/b" for up in ups] + [f"a/{up}" for up in ups] + [f"{ROOT}/{up}/t/f" for up in ups]
    absolute = [
        "/etc/passwd",
        "/data/tables/t2/f",
        "/data/tables/t",
        "/data/tables/t/",
        "/data/tables",
        "/",
        "//host/share/f",
        "//data/tables/t/f",
        "file:/etc/passwd",
        "file:///etc/passwd",
        "file://host/data/tables/t/f",
        "file://localhost/data/tables/t/f",
        "file:relative",
        "FILE:/etc/passwd",
        "http://169.254.169.254/latest/meta-data",
        "https://example.org/f",
        "hdfs://nn:8020/data/tables/t/f",
        "s3a://bucket/warehouse/t/f",
        "s3://user:password@bucket/f",
        "gs://bucket/data/tables/t/f",
        "abfss://c@a.dfs.core.windows.net/data/tables/t/f",
        "jar:file:/data/tables/t/a.jar!/f",
        "data:text/plain,hello",
        "C:/Windows/f",
        "C:\\Windows\\f",
        "c:f",
        "viewfs:/data/tables/t/f",
        "memory:/data/tables/t/f",
        "/data/tables/T/f",
        "/data/tables/t%00/f",
        "/data/tables/t%2f",
        "/data/tables/t%2e/f",
    ]
    bytes_ = [f"a{bad}b" for bad in ("\0", "%00", "\\", "%5c", "%5C", "..\\", "..%5c", "%c0%ae%c0%ae/", "%ff", "%")]
    escapes = ["%", "%2", "a%zz", "%%41", "a%u0041", "a%2", "%GG/f", "a%-1b"]
    surrogates = ["a\ud800b", "%ed%a0%80"]
    delimiters = ["f?x", "f#x", "?x", "#", "f?../../x", "s3a://bucket?x/t"]
    nothing = ["", "/", ".", "./", "a/", "a/.", "//", "a//", "%2f", "%2e"]
    nothing = [path for path in nothing if path not in {"a/."}]
    log = [
        "_delta_log/00000000000000000000.json",
        "_delta_log",
        "./_delta_log/f",
        "_delta%5flog/f",
        "%5Fdelta_log/_last_checkpoint",
        f"{ROOT}/_delta_log/f",
        f"file:{ROOT}//_delta_log/f",
        "/data/tables/t/./_delta_log/f",
    ]
    long = ["a" * 9000, "a/" * 5000 + "f"]
    return climbs + inside + absolute + bytes_ + escapes + surrogates + delimiters + nothing + log + long


ATTACKS = _attacks()


def test_the_corpus_of_attacks_is_large() -> None:
    assert len(set(ATTACKS)) >= 200


def refuses(decode: Callable[[], object]) -> bool:
    """Whether it raises our error, which names the table and stays short."""
    try:
        decode()
    except UnsafePathError as error:
        return error.table == ROOT and len(str(error)) < 1000
    return False


def test_attacks_are_refused() -> None:
    assert [uri for uri in ATTACKS if not refuses(lambda uri=uri: decode_path(uri, table_root=ROOT))] == []


def test_attacks_are_refused_in_columns() -> None:
    in_arrow = [uri for uri in ATTACKS if not any("\ud800" <= character <= "\udfff" for character in uri)]

    def decode(uri: str) -> object:
        return decode_path_column(pa.array(["ok.parquet", uri]), table_root=ROOT)

    assert [uri for uri in in_arrow if not refuses(lambda uri=uri: decode(uri))] == []


def test_attacks_are_refused_as_paths_of_sidecars() -> None:
    attacks = [uri for uri in ATTACKS if uri != "_delta_log"]  # a poor name for a sidecar, but a name
    assert [uri for uri in attacks if not refuses(lambda uri=uri: decode_sidecar_path(uri, table_root=ROOT))] == []


def test_encoding_twice_is_a_strange_name_but_no_way_out() -> None:
    """Decoded once; `%252e` is a file name with a percent sign in it."""
    assert decode_path("%252e%252e/f", table_root=ROOT) == "%2e%2e/f"
    assert decode_path("a%252Fb", table_root=ROOT) == "a%2Fb"


PIECES = st.sampled_from(["..", ".", "/", "%2e", "%2f", "a", ":", "%", "//"])


@given(st.text(max_size=40) | st.lists(PIECES).map("".join))
def test_an_accepted_path_is_in_the_table(uri: str) -> None:
    try:
        relative = decode_path(uri, table_root=ROOT)
    except UnsafePathError:
        return
    joined = posixpath.normpath(f"{ROOT}/{relative}")
    assert joined == f"{ROOT}/{relative}"
    assert not relative.startswith("/")
    assert relative.split("/")[0] != "_delta_log"


def test_a_column_of_ordinary_paths_comes_back_as_it_is() -> None:
    paths = [f"p={n}/part-{n:05}-c000.snappy.parquet" for n in range(100)]
    column = pa.chunked_array([paths[:50], paths[50:]])
    assert decode_path_column(column, table_root=ROOT).to_pylist() == paths
    coded = pa.array(paths).dictionary_encode()
    assert decode_path_column(coded, table_root=ROOT).to_pylist() == paths
    assert decode_path_column(pa.array([], pa.string()), table_root=ROOT).to_pylist() == []


@pytest.mark.parametrize("uri", ["x.parquet", f"{ROOT}/_delta_log/_sidecars/x.parquet", "./x.parquet"])
def test_sidecars(uri: str) -> None:
    assert decode_sidecar_path(uri, table_root=ROOT) == "_delta_log/_sidecars/x.parquet"


@pytest.mark.parametrize("uri", ["a/x.parquet", "../x.json", "_delta_log/_sidecars/x.parquet", f"{ROOT}/x.parquet"])
def test_sidecars_lie_in_their_directory(uri: str) -> None:
    with pytest.raises(UnsafePathError):
        decode_sidecar_path(uri, table_root=ROOT)
