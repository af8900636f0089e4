"""Settings for Google Cloud Storage, from `fs.gs.*` and the environment."""

from __future__ import annotations

import json
from collections.abc import Mapping

from anabranch.errors.environment import StorageOptionError
from anabranch.storage.object.object_options import ObjectStoreOptions, Settings

_KEY_FILE = ("fs.gs.auth.service.account.json.keyfile", "google.cloud.auth.service.account.json.keyfile")
_AUTHENTICATION_TYPES = {"UNAUTHENTICATED", "SERVICE_ACCOUNT_JSON_KEYFILE", "APPLICATION_DEFAULT", "COMPUTE_ENGINE"}


def gcs_options(hadoop: Settings, environment: Mapping[str, str], *, bucket: str) -> ObjectStoreOptions:
    """Options for `bucket` from the settings of Hadoop's GCS connector, else from the environment."""
    configured, emulator = _first(hadoop, "fs.gs.storage.root.url"), environment.get("STORAGE_EMULATOR_HOST")
    endpoint = configured or emulator
    if endpoint and "://" not in endpoint:
        endpoint = f"http://{endpoint}"
    config, credentials = _credentials(hadoop, environment)
    if emulator and not configured and not credentials and not _first(hadoop, "fs.gs.auth.type"):
        # As in Google's own clients: an emulator needs no token, and this machine may have no metadata server.
        config = {"skip_signature": "true"}
    client = {"allow_http": True} if endpoint and endpoint.startswith("http:") else {}
    if endpoint and endpoint.rstrip("/") != "https://storage.googleapis.com":
        config["base_url"] = endpoint.rstrip("/")
        if "skip_signature" in config:
            # Without a signature the client reads, but before it writes it still requests a token from Google,
            # which an emulator does not need.
            config["service_account_key"] = _key_without_token(config["base_url"])
    return ObjectStoreOptions(
        service="gcs",
        bucket=bucket,
        endpoint=endpoint or "Google Cloud Storage",
        config=config,
        credentials=credentials,
        client=client,
    )


def _credentials(hadoop: Settings, environment: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    kind = (_first(hadoop, "fs.gs.auth.type") or "").upper()
    if kind and kind not in _AUTHENTICATION_TYPES:
        reason = f"{kind!r} is not one of {', '.join(sorted(_AUTHENTICATION_TYPES))}"
        raise StorageOptionError(option="fs.gs.auth.type", reason=reason)
    if kind == "UNAUTHENTICATED":
        return {"skip_signature": "true"}, {}
    if kind in {"APPLICATION_DEFAULT", "COMPUTE_ENGINE"}:
        return _application_default(environment), {}
    inline = _inline_key(hadoop)
    if inline is not None:
        return {}, {"service_account_key": inline}
    key_file = _first(hadoop, *_KEY_FILE)
    if key_file is not None:
        return {"service_account": key_file}, {}
    if kind == "SERVICE_ACCOUNT_JSON_KEYFILE":
        raise StorageOptionError(option=_KEY_FILE[0], reason="the authentication type requires it and it is not set")
    return _application_default(environment), {}


def _application_default(environment: Mapping[str, str]) -> dict[str, str]:
    key_file = environment.get("GOOGLE_APPLICATION_CREDENTIALS")
    return {"application_credentials": key_file} if key_file else {}


def _inline_key(hadoop: Settings) -> str | None:
    """The JSON of a key file from the three properties of older settings; None if they are not set."""
    prefix = "fs.gs.auth.service.account."
    email, key_id, key = (_first(hadoop, prefix + name) for name in ("email", "private.key.id", "private.key"))
    if email is None or key is None:
        return None
    fields = {
        "type": "service_account",
        "client_email": email,
        "private_key_id": key_id or "",
        "private_key": key.replace("\\n", "\n"),
    }
    return json.dumps(fields)


def _key_without_token(endpoint: str) -> str:
    fields = {"client_email": "", "private_key": "", "private_key_id": ""}
    return json.dumps({**fields, "gcs_base_url": endpoint, "disable_oauth": True})


def _first(hadoop: Settings, *names: str) -> str | None:
    return next((value for name in names if (value := (hadoop.get(name) or "").strip())), None)
