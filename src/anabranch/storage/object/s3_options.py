"""Settings for S3 and services with its protocol, from `fs.s3a.*` and the environment."""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from anabranch.booleans import parse_boolean
from anabranch.errors.environment import StorageOptionError
from anabranch.storage.object.object_options import ObjectStoreOptions, Settings

DEFAULT_REGION = "us-east-1"

_SIMPLE, _TEMPORARY, _ENVIRONMENT, _ANONYMOUS, _AMBIENT = "simple", "temporary", "environment", "anonymous", "ambient"
_PROVIDERS = {
    "SimpleAWSCredentialsProvider": _SIMPLE,
    "TemporaryAWSCredentialsProvider": _TEMPORARY,
    "EnvironmentVariableCredentialsProvider": _ENVIRONMENT,
    "AnonymousAWSCredentialsProvider": _ANONYMOUS,
    "AnonymousCredentialsProvider": _ANONYMOUS,
    "IAMInstanceCredentialsProvider": _AMBIENT,
    "InstanceProfileCredentialsProvider": _AMBIENT,
    "EC2ContainerCredentialsProviderWrapper": _AMBIENT,
    "ContainerCredentialsProvider": _AMBIENT,
    "WebIdentityTokenCredentialsProvider": _AMBIENT,
    "WebIdentityTokenFileCredentialsProvider": _AMBIENT,
    "DefaultAWSCredentialsProviderChain": _AMBIENT,
    "DefaultCredentialsProvider": _AMBIENT,
}
_ENCRYPTION = {"AES256": "AES256", "SSE-KMS": "aws:kms", "DSSE-KMS": "aws:kms:dsse"}


def s3_options(hadoop: Settings, environment: Mapping[str, str], *, bucket: str) -> ObjectStoreOptions:
    """Options for `bucket` from the settings of Hadoop's S3A, else from the environment.

    `fs.s3a.bucket.<bucket>.*` takes precedence over `fs.s3a.*`, and that over `AWS_*`. All credentials are
    from the same one of them, in the order of `fs.s3a.aws.credentials.provider` where that is set.
    """
    options = _BucketOptions(hadoop, bucket)
    endpoint = _endpoint(options, environment, bucket=bucket)
    credentials = _credentials(options, environment)
    config = {
        "region": endpoint.region,
        "virtual_hosted_style_request": _text(not endpoint.path_style),
        "conditional_put": "etag",
        **_encryption(options),
    }
    if endpoint.url is not None:
        config["endpoint"] = endpoint.url
        if environment.get("AWS_ENDPOINT_URL_S3"):
            # obstore reads this variable itself and would prefer it to the session's endpoint.
            config["aws_endpoint_url_s3"] = endpoint.url
    if credentials is None:
        config["skip_signature"] = "true"
    if options.flag("requester.pays.enabled", default=False):
        config["request_payer"] = "true"
    directory_bucket = bucket.endswith("--x-s3")
    if directory_bucket:
        config["s3_express"] = "true"
    return ObjectStoreOptions(
        service="s3",
        bucket=bucket,
        endpoint=endpoint.shown,
        config=config,
        credentials=credentials or {},
        client=_client(options, endpoint),
        lists_in_order=not directory_bucket,
    )


class _BucketOptions:
    """The options below `fs.s3a.`; those of the bucket take precedence."""

    def __init__(self, hadoop: Settings, bucket: str) -> None:
        self._hadoop = hadoop
        self._prefixes = (f"fs.s3a.bucket.{bucket}.", "fs.s3a.")

    def get(self, *names: str) -> str | None:
        for prefix in self._prefixes:
            for name in names:
                value = (self._hadoop.get(prefix + name) or "").strip()
                if value:
                    return value
        return None

    def flag(self, name: str, *, default: bool) -> bool:
        text = (self.get(name) or _text(default)).lower()
        value = parse_boolean(text)
        if value is None:
            raise StorageOptionError(option=f"fs.s3a.{name}", reason=f"{text!r} is neither 'true' nor 'false'")
        return value


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Endpoint:
    url: str | None
    """The URL; None for Amazon's own endpoint of the region."""
    region: str
    path_style: bool
    shown: str


def _endpoint(options: _BucketOptions, environment: Mapping[str, str], *, bucket: str) -> _Endpoint:
    environment_url = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    endpoint = options.get("endpoint") or environment_url
    region = options.get("endpoint.region") or _region_in(endpoint)
    region = region or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or DEFAULT_REGION
    path_style = options.flag("path.style.access", default=False)
    if endpoint is None or re.fullmatch(r"(https://)?s3[.-]?([a-z0-9-]+\.)?amazonaws\.com/?", endpoint):
        # A certificate for *.s3… does not cover a bucket's name with dots. And where the environment has
        # another endpoint, obstore needs the URL of Amazon's, or it would use that one.
        path_style = path_style or "." in bucket or environment_url is not None
        url = f"https://s3.{region}.amazonaws.com" if environment_url else None
        return _Endpoint(url=url, region=region, path_style=path_style, shown=f"Amazon S3 ({region})")
    secure = options.flag("connection.ssl.enabled", default=True)
    if "://" not in endpoint:
        endpoint = f"{'https' if secure else 'http'}://{endpoint}"
    parts = urlsplit(endpoint)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username or parts.password:
        reason = "it is not of the form host[:port] or http(s)://host[:port]"
        raise StorageOptionError(option="fs.s3a.endpoint", reason=reason)
    endpoint = endpoint.rstrip("/")
    if path_style or _has_no_subdomains(parts.hostname):
        return _Endpoint(url=endpoint, region=region, path_style=True, shown=endpoint)
    url = f"{parts.scheme}://{bucket}.{parts.netloc}"
    return _Endpoint(url=url, region=region, path_style=False, shown=endpoint)


def _region_in(endpoint: str | None) -> str | None:
    match = re.search(r"\bs3[.-]([a-z0-9-]+)\.(vpce\.)?amazonaws\.com", endpoint or "")
    return match[1] if match else None


def _has_no_subdomains(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _credentials(options: _BucketOptions, environment: Mapping[str, str]) -> dict[str, str] | None:
    """Keys; empty if obstore is to use a role, None for anonymous requests."""
    for provider in _providers(options):
        if provider == _ANONYMOUS:
            return None
        if provider == _AMBIENT:
            return {}
        token = options.get("session.token")
        if provider == _TEMPORARY and token is None:
            continue
        if provider == _ENVIRONMENT:
            keys = _keys(
                environment.get("AWS_ACCESS_KEY_ID"),
                environment.get("AWS_SECRET_ACCESS_KEY"),
                environment.get("AWS_SESSION_TOKEN"),
            )
        else:
            token = token if provider == _TEMPORARY else None
            keys = _keys(options.get("access.key"), options.get("secret.key"), token)
        if keys is not None:
            return keys
    reason = "none of these providers has credentials"
    raise StorageOptionError(option="fs.s3a.aws.credentials.provider", reason=reason)


def _providers(options: _BucketOptions) -> list[str]:
    named = [name for name in re.split(r"[\s,]+", options.get("aws.credentials.provider") or "") if name]
    supported = [_PROVIDERS[simple] for name in named if (simple := re.split(r"[.$]", name)[-1]) in _PROVIDERS]
    if named and not supported:
        reason = f"anabranch supports none of {', '.join(named)}; use one of {', '.join(sorted(_PROVIDERS))}"
        raise StorageOptionError(option="fs.s3a.aws.credentials.provider", reason=reason)
    return supported or [_TEMPORARY, _SIMPLE, _ENVIRONMENT, _AMBIENT]


def _keys(access_key: str | None, secret_key: str | None, token: str | None) -> dict[str, str] | None:
    if not access_key or not secret_key:
        return None
    keys = {"access_key_id": access_key, "secret_access_key": secret_key}
    return {**keys, "session_token": token} if token else keys


def _encryption(options: _BucketOptions) -> dict[str, str]:
    algorithm = options.get("encryption.algorithm", "server-side-encryption-algorithm")
    if algorithm is None:
        return {}
    if algorithm not in _ENCRYPTION:
        reason = f"{algorithm!r} is not one of {', '.join(sorted(_ENCRYPTION))}"
        raise StorageOptionError(option="fs.s3a.encryption.algorithm", reason=reason)
    config = {"server_side_encryption": _ENCRYPTION[algorithm]}
    key = options.get("encryption.key", "server-side-encryption.key")
    return {**config, "sse_kms_key_id": key} if key and algorithm != "AES256" else config


def _client(options: _BucketOptions, endpoint: _Endpoint) -> dict[str, object]:
    client: dict[str, object] = {}
    if endpoint.url is not None and endpoint.url.startswith("http:"):
        client["allow_http"] = True
    proxy = options.get("proxy.host")
    if proxy is not None:
        secured = options.flag("proxy.ssl.enabled", default=False)
        port = options.get("proxy.port") or ("443" if secured else "80")
        client["proxy_url"] = f"{'https' if secured else 'http'}://{proxy}:{port}"
    return client


def _text(value: bool) -> str:
    return "true" if value else "false"
