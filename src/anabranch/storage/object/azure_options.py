"""Settings for Azure Storage, from `fs.azure.*` and the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from anabranch.errors.environment import StorageOptionError
from anabranch.storage.object.object_options import ObjectStoreOptions, Settings

_OAUTH = "fs.azure.account.oauth2"


def azure_options(
    hadoop: Settings, environment: Mapping[str, str], *, container: str, account_host: str
) -> ObjectStoreOptions:
    """Options for `container` from the settings of Hadoop's ABFS, else from the environment.

    `account_host` is the part of the URL after `@` (`account.dfs.core.windows.net`), or empty: then the
    account is `AZURE_STORAGE_ACCOUNT_NAME`.
    """
    account = account_host.partition(".")[0] or environment.get("AZURE_STORAGE_ACCOUNT_NAME", "")
    if not account:
        reason = "the URL has no account and the environment has no AZURE_STORAGE_ACCOUNT_NAME"
        raise StorageOptionError(option="account", reason=reason)
    options = _AccountOptions(hadoop, account=account, host=account_host)
    config, credentials = _credentials(options, environment, container=container)
    config["account_name"] = account
    endpoint = environment.get("AZURE_STORAGE_ENDPOINT") or _sovereign_endpoint(account, account_host)
    if endpoint:
        config["endpoint"] = endpoint
    return ObjectStoreOptions(
        service="azure",
        bucket=container,
        endpoint=endpoint or f"https://{account}.blob.core.windows.net",
        config=config,
        credentials=credentials,
        client={"allow_http": True} if endpoint and endpoint.startswith("http:") else {},
    )


class _AccountOptions:
    """Properties of an account: names that end in its host take precedence."""

    def __init__(self, hadoop: Settings, *, account: str, host: str) -> None:
        self._hadoop = hadoop
        hosts = [host, f"{account}.dfs.core.windows.net", f"{account}.blob.core.windows.net", account]
        self._suffixes = [*(f".{name}" for name in dict.fromkeys(hosts) if name), ""]

    def get(self, name: str) -> str | None:
        for suffix in self._suffixes:
            value = (self._hadoop.get(name + suffix) or "").strip()
            if value:
                return value
        return None


def _credentials(
    options: _AccountOptions, environment: Mapping[str, str], *, container: str
) -> tuple[dict[str, str], dict[str, str]]:
    """The configuration and the secrets of obstore's client."""
    kind = (options.get("fs.azure.account.auth.type") or "").lower()
    if kind not in {"", "sharedkey", "oauth", "sas"}:
        reason = f"{kind!r} is not one of SharedKey, OAuth, SAS"
        raise StorageOptionError(option="fs.azure.account.auth.type", reason=reason)
    if kind == "oauth":
        return _oauth(options)
    signature = options.get("fs.azure.sas.fixed.token") or options.get(f"fs.azure.sas.{container}")
    key = options.get("fs.azure.account.key")
    if key and kind != "sas":
        return {}, {"account_key": key}
    if signature and kind != "sharedkey":
        return {}, {"sas_key": signature.removeprefix("?")}
    if kind:
        wanted = "fs.azure.account.key" if kind == "sharedkey" else "fs.azure.sas.fixed.token"
        raise StorageOptionError(option=wanted, reason="the authentication type requires it and it is not set")
    return _from_environment(environment)


def _oauth(options: _AccountOptions) -> tuple[dict[str, str], dict[str, str]]:
    provider = (options.get("fs.azure.account.oauth.provider.type") or "").rpartition(".")[2]
    client, secret = options.get(f"{_OAUTH}.client.id"), options.get(f"{_OAUTH}.client.secret")
    config = {"client_id": client} if client else {}
    if provider == "MsiTokenProvider":
        return config, {}
    tenant = options.get(f"{_OAUTH}.msi.tenant")
    address = options.get(f"{_OAUTH}.client.endpoint")
    if address:
        parts = urlsplit(address)
        tenant = tenant or parts.path.strip("/").partition("/")[0]
        config["authority_host"] = f"{parts.scheme}://{parts.netloc}"
    if tenant:
        config["tenant_id"] = tenant
    if provider == "WorkloadIdentityTokenProvider":
        token_file = options.get(f"{_OAUTH}.token.file")
        return ({**config, "federated_token_file": token_file} if token_file else config), {}
    if provider not in {"", "ClientCredsTokenProvider"}:
        reason = f"{provider!r} is not one of ClientCredsTokenProvider, MsiTokenProvider, WorkloadIdentityTokenProvider"
        raise StorageOptionError(option="fs.azure.account.oauth.provider.type", reason=reason)
    for name, value in (("client.id", client), ("client.secret", secret), ("client.endpoint", tenant)):
        if not value:
            raise StorageOptionError(option=f"{_OAUTH}.{name}", reason="OAuth requires it and it is not set")
    return config, {"client_secret": secret or ""}


def _from_environment(environment: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    key = environment.get("AZURE_STORAGE_ACCOUNT_KEY")
    if key:
        return {}, {"account_key": key}
    signature = environment.get("AZURE_STORAGE_SAS_TOKEN") or environment.get("AZURE_STORAGE_SAS_KEY")
    if signature:
        return {}, {"sas_key": signature.removeprefix("?")}
    client, tenant = environment.get("AZURE_CLIENT_ID"), environment.get("AZURE_TENANT_ID")
    secret = environment.get("AZURE_CLIENT_SECRET")
    if client and tenant and secret:
        return {"client_id": client, "tenant_id": tenant}, {"client_secret": secret}
    return {}, {}


def _sovereign_endpoint(account: str, host: str) -> str | None:
    """The endpoint of a cloud other than the public one, whose suffix is in the URL; None for the public one."""
    match = re.fullmatch(r"[^.]+\.(?:dfs|blob)\.(?P<suffix>.+)", host)
    if match is None or match["suffix"] == "core.windows.net":
        return None
    return f"https://{account}.blob.{match['suffix']}"
