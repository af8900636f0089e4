"""What it takes to reach one bucket, translated from the settings users already have."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, Protocol

import obstore.store

from anabranch.storage.log_store import redact

TIMEOUT = "180s"
"""For one request with its body; a large commit over a thin line takes a while."""

Service = Literal["s3", "gcs", "azure"]


class Settings(Protocol):
    """Hadoop's properties by name; any mapping of strings is one."""

    def get(self, key: str, /) -> str | None:
        """The value, or None where it is not set."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ObjectStoreOptions:
    """How to reach one bucket (S3, GCS) or container (Azure). Shows no secret when printed."""

    service: Service
    bucket: str
    endpoint: str
    """For messages: the service as the user knows it."""
    config: Mapping[str, str] = dataclasses.field(repr=False)
    """obstore's configuration, credentials aside."""
    credentials: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    """Credentials; empty where obstore finds them itself (instance metadata, workload identity)."""
    client: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """Options of the HTTP client."""
    lists_in_order: bool = True
    """False for S3 directory buckets."""

    def connect(self, *, retries_max: int | None = None) -> obstore.store.ObjectStore:
        """A client; with `retries_max=0` what it says is about the one request it sent."""
        config: dict[str, Any] = dict(self.config)
        options: Any = {"timeout": TIMEOUT, **self.client}
        retry: Any = None if retries_max is None else {"max_retries": retries_max}
        arguments: Any = {"config": config, "client_options": options, "retry_config": retry}
        if self.service == "gcs":
            config.update(self.credentials)
            return obstore.store.GCSStore(self.bucket, **arguments)
        if self.service == "azure":
            config.update(self.credentials)
            return obstore.store.AzureStore(self.bucket, **arguments)
        if self.credentials:
            # obstore would complete our keys with a session token it finds in the environment, which
            # belongs to other keys; a provider is taken as it is.
            arguments["credential_provider"] = self._s3_credentials
        return obstore.store.S3Store(self.bucket, **arguments)

    def redact(self, text: str) -> str:
        """`text` of the client or the service, short and without secrets."""
        return redact(text, secrets=self.credentials.values())

    def _s3_credentials(self) -> Any:
        return {
            "access_key_id": self.credentials["access_key_id"],
            "secret_access_key": self.credentials["secret_access_key"],
            "token": self.credentials.get("session_token"),
            "expires_at": None,
        }
