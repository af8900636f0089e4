"""Settings for S3 and what speaks its protocol, from `fs.s3a.*` and the environment."""

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
    """How to reach `bucket` as Hadoop's S3A would; what it leaves open comes from the environment.

    `fs.s3a.bucket.<bucket>.*` goes before `fs.s3a.*`, and that before `AWS_*`. Credentials are taken whole
    from one of them, in the order of `fs.s3a.aws.credentials.provider` where that is set.
    """
    options = _BucketOptions(hadoop, bucket)
    place = _place(options, environment, bucket=bucket)
    credentials = _credentials(options, environment)
    config = {
        "region": place.region,
        "virtual_hosted_style_request": _text(not place.path_style),
        "conditional_put": "etag",
        **_encryption(options),
    }
    if place.url is not None:
        config["endpoint"] = place.url
        if environment.get("AWS_ENDPOINT_URL_S3"):
            # obstore reads this one itself and would prefer it to the session's endpoint.
            config["aws_endpoint_url_s3"] = place.url
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
        endpoint=place.shown,
        config=config,
        credentials=credentials or {},
        client=_client(options, place),
        lists_in_order=not directory_bucket,
    )


class _BucketOptions:
    """The options of `fs.s3a.`, those of one bucket first."""

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
        found = parse_boolean(text)
        if found is None:
            raise StorageOptionError(option=f"fs.s3a.{name}", reason=f"{text!r} is neither 'true' nor 'false'")
        return found


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    url: str | None
    """None for Amazon's own endpoint of the region."""
    region: str
    path_style: bool
    shown: str


def _place(options: _BucketOptions, environment: Mapping[str, str], *, bucket: str) -> _Place:
    elsewhere = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    endpoint = options.get("endpoint") or elsewhere
    region = options.get("endpoint.region") or _region_in(endpoint)
    region = region or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or DEFAULT_REGION
    path_style = options.flag("path.style.access", default=False)
    if endpoint is None or re.fullmatch(r"(https://)?s3[.-]?([a-z0-9-]+\.)?amazonaws\.com/?", endpoint):
        # A certificate for *.s3… does not cover a bucket's name with dots. And where the environment names
        # another endpoint, obstore must be told Amazon's.
        path_style = path_style or "." in bucket or elsewhere is not None
        url = f"https://s3.{region}.amazonaws.com" if elsewhere else None
        return _Place(url=url, region=region, path_style=path_style, shown=f"Amazon S3 ({region})")
    secure = options.flag("connection.ssl.enabled", default=True)
    if "://" not in endpoint:
        endpoint = f"{'https' if secure else 'http'}://{endpoint}"
    parts = urlsplit(endpoint)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username or parts.password:
        reason = "it is not of the form host[:port] or http(s)://host[:port]"
        raise StorageOptionError(option="fs.s3a.endpoint", reason=reason)
    endpoint = endpoint.rstrip("/")
    if path_style or _has_no_subdomains(parts.hostname):
        return _Place(url=endpoint, region=region, path_style=True, shown=endpoint)
    url = f"{parts.scheme}://{bucket}.{parts.netloc}"
    return _Place(url=url, region=region, path_style=False, shown=endpoint)


def _region_in(endpoint: str | None) -> str | None:
    found = re.search(r"\bs3[.-]([a-z0-9-]+)\.(vpce\.)?amazonaws\.com", endpoint or "")
    return found[1] if found else None


def _has_no_subdomains(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _credentials(options: _BucketOptions, environment: Mapping[str, str]) -> dict[str, str] | None:
    """Keys; empty to let obstore look for a role, None for anonymous requests."""
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
    reason = "none of the providers that it names found credentials"
    raise StorageOptionError(option="fs.s3a.aws.credentials.provider", reason=reason)


def _providers(options: _BucketOptions) -> list[str]:
    named = [name for name in re.split(r"[\s,]+", options.get("aws.credentials.provider") or "") if name]
    known = [_PROVIDERS[simple] for name in named if (simple := re.split(r"[.$]", name)[-1]) in _PROVIDERS]
    if named and not known:
        reason = f"anabranch knows none of {', '.join(named)}; name one of {', '.join(sorted(_PROVIDERS))}"
        raise StorageOptionError(option="fs.s3a.aws.credentials.provider", reason=reason)
    return known or [_TEMPORARY, _SIMPLE, _ENVIRONMENT, _AMBIENT]


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
        reason = f"{algorithm!r} is none of {', '.join(sorted(_ENCRYPTION))}"
        raise StorageOptionError(option="fs.s3a.encryption.algorithm", reason=reason)
    config = {"server_side_encryption": _ENCRYPTION[algorithm]}
    key = options.get("encryption.key", "server-side-encryption.key")
    return {**config, "sse_kms_key_id": key} if key and algorithm != "AES256" else config


def _client(options: _BucketOptions, place: _Place) -> dict[str, object]:
    client: dict[str, object] = {}
    if place.url is not None and place.url.startswith("http:"):
        client["allow_http"] = True
    proxy = options.get("proxy.host")
    if proxy is not None:
        secured = options.flag("proxy.ssl.enabled", default=False)
        port = options.get("proxy.port") or ("443" if secured else "80")
        client["proxy_url"] = f"{'https' if secured else 'http'}://{proxy}:{port}"
    return client


def _text(value: bool) -> str:
    return "true" if value else "false"
