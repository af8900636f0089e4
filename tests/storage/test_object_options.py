"""Users configure once: what Spark's connectors read, we read."""

from __future__ import annotations

import json

import pytest

from anabranch.errors.environment import StorageOptionError
from anabranch.storage.log_store import redact
from anabranch.storage.object.azure_options import azure_options
from anabranch.storage.object.gcs_options import gcs_options
from anabranch.storage.object.object_options import ObjectStoreOptions
from anabranch.storage.object.s3_options import s3_options

KEYS = {"fs.s3a.access.key": "AK", "fs.s3a.secret.key": "SK"}
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "EAK", "AWS_SECRET_ACCESS_KEY": "ESK", "AWS_SESSION_TOKEN": "ETOKEN"}
DEFAULT_PROVIDERS = """
    org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider,
    org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider,
    software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider,
    org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider
"""


def s3(hadoop: dict[str, str], environment: dict[str, str] | None = None, bucket: str = "b") -> ObjectStoreOptions:
    options = s3_options(hadoop, environment or {}, bucket=bucket)
    options.connect()
    return options


def test_keys_of_the_session_come_before_those_of_the_environment() -> None:
    assert s3(KEYS, ENVIRONMENT).credentials == {"access_key_id": "AK", "secret_access_key": "SK"}
    token = {**KEYS, "fs.s3a.session.token": "T"}
    assert s3(token, ENVIRONMENT).credentials["session_token"] == "T"
    assert s3({}, ENVIRONMENT).credentials == {
        "access_key_id": "EAK",
        "secret_access_key": "ESK",
        "session_token": "ETOKEN",
    }
    assert s3({}).credentials == {}
    assert "skip_signature" not in s3({}).config


def test_a_token_of_the_environment_never_joins_keys_of_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    client = s3(KEYS, ENVIRONMENT).connect()
    provided = client.credential_provider()  # type: ignore[union-attr,misc]
    assert provided == {"access_key_id": "AK", "secret_access_key": "SK", "token": None, "expires_at": None}


def test_options_of_one_bucket_come_first() -> None:
    hadoop = {
        **KEYS,
        "fs.s3a.bucket.b.access.key": "BAK",
        "fs.s3a.bucket.b.secret.key": "BSK",
        "fs.s3a.bucket.b.endpoint": "https://minio.example.com:9000",
        "fs.s3a.bucket.b.path.style.access": "true",
    }
    ours, other = s3(hadoop), s3(hadoop, bucket="c")
    assert (ours.credentials["access_key_id"], other.credentials["access_key_id"]) == ("BAK", "AK")
    assert ours.config["endpoint"] == "https://minio.example.com:9000"
    assert "endpoint" not in other.config


@pytest.mark.parametrize(
    ("hadoop", "environment", "endpoint", "virtual"),
    [
        ({"fs.s3a.endpoint": "minio:9000"}, {}, "https://b.minio:9000", "true"),
        ({"fs.s3a.endpoint": "minio:9000", "fs.s3a.path.style.access": "true"}, {}, "https://minio:9000", "false"),
        (
            {"fs.s3a.endpoint": "minio:9000", "fs.s3a.connection.ssl.enabled": "false"},
            {},
            "http://b.minio:9000",
            "true",
        ),
        ({"fs.s3a.endpoint": "http://127.0.0.1:9000/"}, {}, "http://127.0.0.1:9000", "false"),
        ({"fs.s3a.endpoint": "http://localhost:9000"}, {}, "http://localhost:9000", "false"),
        ({}, {"AWS_ENDPOINT_URL": "http://localhost:4566"}, "http://localhost:4566", "false"),
        ({"fs.s3a.endpoint": "http://[::1]:9000"}, {"AWS_ENDPOINT_URL_S3": "http://x"}, "http://[::1]:9000", "false"),
        ({}, {}, None, "true"),
        ({"fs.s3a.endpoint": "s3.amazonaws.com"}, {}, None, "true"),
        ({"fs.s3a.endpoint": "s3.eu-west-1.amazonaws.com"}, {}, None, "true"),
        (
            {"fs.s3a.endpoint": "s3.amazonaws.com"},
            {"AWS_ENDPOINT_URL": "http://elsewhere"},
            "https://s3.us-east-1.amazonaws.com",
            "false",
        ),
    ],
)
def test_endpoints(hadoop: dict[str, str], environment: dict[str, str], endpoint: str | None, virtual: str) -> None:
    options = s3({**KEYS, **hadoop}, environment)
    assert options.config.get("endpoint") == endpoint
    assert options.config["virtual_hosted_style_request"] == virtual
    assert options.client.get("allow_http", False) is (endpoint or "").startswith("http:")


@pytest.mark.parametrize(
    ("hadoop", "environment", "region"),
    [
        ({}, {}, "us-east-1"),
        ({"fs.s3a.endpoint.region": "eu-north-1"}, {"AWS_REGION": "us-west-2"}, "eu-north-1"),
        ({"fs.s3a.endpoint": "s3.ap-south-1.amazonaws.com"}, {"AWS_REGION": "us-west-2"}, "ap-south-1"),
        ({"fs.s3a.endpoint": "s3.cn-north-1.amazonaws.com.cn"}, {}, "cn-north-1"),
        ({}, {"AWS_REGION": "us-west-2", "AWS_DEFAULT_REGION": "us-west-1"}, "us-west-2"),
        ({}, {"AWS_DEFAULT_REGION": "us-west-1"}, "us-west-1"),
    ],
)
def test_regions(hadoop: dict[str, str], environment: dict[str, str], region: str) -> None:
    assert s3(hadoop, environment).config["region"] == region


def test_a_bucket_with_dots_is_addressed_by_path() -> None:
    assert s3(KEYS, bucket="my.bucket").config["virtual_hosted_style_request"] == "false"


def test_credential_providers() -> None:
    def by(*names: str, **more: str) -> ObjectStoreOptions:
        return s3({**KEYS, "fs.s3a.aws.credentials.provider": ",".join(names), **more}, ENVIRONMENT)

    anonymous = by("org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider")
    assert anonymous.config["skip_signature"] == "true"
    assert anonymous.credentials == {}
    assert by(DEFAULT_PROVIDERS).credentials["access_key_id"] == "AK"
    environment = by("com.amazonaws.auth.EnvironmentVariableCredentialsProvider")
    assert environment.credentials["access_key_id"] == "EAK"
    assert by("org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider").credentials == {}
    temporary = by("a.b.TemporaryAWSCredentialsProvider", "a.SimpleAWSCredentialsProvider")
    assert temporary.credentials["access_key_id"] == "AK", "without a token the next in line answers"
    with pytest.raises(StorageOptionError, match=r"com\.example\.Own"):
        by("com.example.Own")
    with pytest.raises(StorageOptionError, match="has credentials"):
        by("a.TemporaryAWSCredentialsProvider")


def test_encryption_proxy_and_payer() -> None:
    options = s3(
        {
            **KEYS,
            "fs.s3a.encryption.algorithm": "SSE-KMS",
            "fs.s3a.encryption.key": "arn:aws:kms:k",
            "fs.s3a.requester.pays.enabled": "true",
            "fs.s3a.proxy.host": "proxy",
            "fs.s3a.proxy.port": "3128",
        }
    )
    assert options.config["server_side_encryption"] == "aws:kms"
    assert options.config["sse_kms_key_id"] == "arn:aws:kms:k"
    assert options.config["request_payer"] == "true"
    assert options.client["proxy_url"] == "http://proxy:3128"
    with pytest.raises(StorageOptionError, match="SSE-C"):
        s3({"fs.s3a.encryption.algorithm": "SSE-C"})


@pytest.mark.parametrize("endpoint", ["ftp://x", "https://user:pass@host", "https://"])
def test_endpoints_that_are_none(endpoint: str) -> None:
    with pytest.raises(StorageOptionError) as caught:
        s3({"fs.s3a.endpoint": endpoint})
    assert "pass" not in str(caught.value)


def test_flags_are_true_or_false() -> None:
    with pytest.raises(StorageOptionError, match=r"path\.style\.access"):
        s3({"fs.s3a.path.style.access": "yes"})


def test_directory_buckets_list_without_order() -> None:
    assert not s3(KEYS, bucket="logs--use1-az4--x-s3").lists_in_order
    assert s3(KEYS).lists_in_order


def gcs(hadoop: dict[str, str], environment: dict[str, str] | None = None) -> ObjectStoreOptions:
    return gcs_options(hadoop, environment or {}, bucket="b")


def test_gcs() -> None:
    anonymous = {"fs.gs.auth.type": "UNAUTHENTICATED"}
    assert gcs(anonymous).config == {"skip_signature": "true"}
    assert gcs({}, {"STORAGE_EMULATOR_HOST": "localhost:4443"}).config["skip_signature"] == "true", "bug B84"
    emulator = gcs(anonymous, {"STORAGE_EMULATOR_HOST": "localhost:4443"})
    assert emulator.config["base_url"] == "http://localhost:4443"
    emulator.connect()
    assert gcs({"fs.gs.auth.service.account.json.keyfile": "/k.json"}).config == {"service_account": "/k.json"}
    ambient = gcs({}, {"GOOGLE_APPLICATION_CREDENTIALS": "/adc.json"})
    assert ambient.config == {"application_credentials": "/adc.json"}
    prefix = "fs.gs.auth.service.account."
    spelled = gcs({prefix + "email": "e@x", prefix + "private.key.id": "1", prefix + "private.key": "SECRET"})
    assert json.loads(spelled.credentials["service_account_key"])["private_key"] == "SECRET"
    assert "SECRET" not in repr(spelled)
    with pytest.raises(StorageOptionError, match=r"fs\.gs\.auth\.type"):
        gcs({"fs.gs.auth.type": "SPELL"})
    with pytest.raises(StorageOptionError, match="keyfile"):
        gcs({"fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE"})


HOST = "acc.dfs.core.windows.net"


def azure(hadoop: dict[str, str], environment: dict[str, str] | None = None, host: str = HOST) -> ObjectStoreOptions:
    options = azure_options(hadoop, environment or {}, container="c", account_host=host)
    options.connect()
    return options


def test_azure_keys() -> None:
    key = "a2V5"
    assert azure({f"fs.azure.account.key.{HOST}": key}).credentials == {"account_key": key}
    assert azure({"fs.azure.account.key.acc.blob.core.windows.net": key}).credentials == {"account_key": key}
    assert azure({"fs.azure.account.key": key}).credentials == {"account_key": key}
    assert azure({f"fs.azure.account.key.other.{HOST}": key}).credentials == {}
    assert azure({}, {"AZURE_STORAGE_ACCOUNT_KEY": key}).credentials == {"account_key": key}
    assert azure({f"fs.azure.account.key.{HOST}": key}).config["account_name"] == "acc"
    assert azure({}, {"AZURE_STORAGE_ACCOUNT_NAME": "named"}, host="").config["account_name"] == "named"
    with pytest.raises(StorageOptionError, match="AZURE_STORAGE_ACCOUNT_NAME"):
        azure({}, host="")
    china = azure({}, host="acc.dfs.core.chinacloudapi.cn")
    assert china.config["endpoint"] == "https://acc.blob.core.chinacloudapi.cn"


def test_azure_signatures() -> None:
    hadoop = {f"fs.azure.account.auth.type.{HOST}": "SAS", f"fs.azure.sas.fixed.token.{HOST}": "?sv=2024&sig=SECRET"}
    options = azure(hadoop)
    assert options.credentials == {"sas_key": "sv=2024&sig=SECRET"}
    assert "SECRET" not in repr(options)
    assert azure({"fs.azure.sas.c.acc.blob.core.windows.net": "sv=1&sig=x"}).credentials == {"sas_key": "sv=1&sig=x"}


def test_azure_oauth() -> None:
    oauth = "fs.azure.account.oauth2.client."
    hadoop = {
        f"fs.azure.account.auth.type.{HOST}": "OAuth",
        f"fs.azure.account.oauth.provider.type.{HOST}": "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider",
        f"{oauth}id.{HOST}": "id",
        f"{oauth}secret.{HOST}": "SECRET",
        f"{oauth}endpoint.{HOST}": "https://login.microsoftonline.com/tenant/oauth2/token",
    }
    options = azure(hadoop)
    assert options.credentials == {"client_secret": "SECRET"}
    assert options.config["tenant_id"] == "tenant"
    assert options.config["authority_host"] == "https://login.microsoftonline.com"
    with pytest.raises(StorageOptionError, match=r"client\.secret"):
        azure({key: value for key, value in hadoop.items() if "secret" not in key})
    identity = {**hadoop, f"fs.azure.account.oauth.provider.type.{HOST}": "x.MsiTokenProvider"}
    assert azure(identity).credentials == {}


def test_nothing_secret_is_printed() -> None:
    """Covers attack A13."""
    options = s3({**KEYS, "fs.s3a.access.key": "VISIBLE?", "fs.s3a.secret.key": "HIDDEN!"})
    assert "HIDDEN!" not in repr(options)
    assert "VISIBLE?" not in repr(options)
    text = "GET https://a.blob.core.windows.net/c?sv=1&sig=abc%3D failed with HIDDEN!"
    assert options.redact(text) == "GET https://a.blob.core.windows.net/c?… failed with …"
    assert redact("<?xml version='1'?>\n<Error><Code>C</Code><Message>M</Message></Error>") == ": C, M"
