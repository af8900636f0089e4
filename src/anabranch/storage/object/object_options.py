"""Options of the client for one bucket, translated from the settings that users already have."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal, Protocol

import obstore.store

from anabranch.storage.log_store import redact

TIMEOUT = "180s"
"""The timeout of one request with its body: a large commit over a slow network takes long."""

Service = Literal["s3", "gcs", "azure"]


class Settings(Protocol):
    """Hadoop's properties by name; any mapping of strings implements it."""

    def get(self, key: str, /) -> str | None:
        """The value, or None where it is not set."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ObjectStoreOptions:
    """Options for one bucket (S3, GCS) or container (Azure). Its `repr` has no secrets."""

    service: Service
    bucket: str
    endpoint: str
    """The service as users know it, for messages."""
    config: Mapping[str, str] = dataclasses.field(repr=False)
    """obstore's configuration, without credentials."""
    credentials: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    """Credentials; empty where obstore gets them itself (instance metadata, workload identity)."""
    client: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """Options of the HTTP client."""
    lists_in_order: bool = True
    """Whether listings are sorted by name; S3 directory buckets do not sort them."""

    @property
    def identity(self) -> str:
        """A hash that is equal for two clients with the same service, settings and credentials."""
        mappings = (dict(self.config), dict(self.credentials), dict(self.client))
        values = json.dumps((self.service, self.bucket, self.endpoint, *mappings), sort_keys=True, default=repr)
        return hashlib.blake2b(values.encode(), digest_size=16).hexdigest()

    def connect(self, *, retries_max: int | None = None) -> obstore.store.ObjectStore:
        """A client; with `retries_max=0` its errors are about the only request that it sent."""
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
            # obstore would complete these keys with a session token of the environment, which belongs to
            # other keys; it does not do so for a provider.
            arguments["credential_provider"] = self._s3_credentials
        return obstore.store.S3Store(self.bucket, **arguments)

    def redact(self, text: str) -> str:
        """A message of the client or the service, short and without secrets."""
        return redact(text, secrets=self.credentials.values())

    def _s3_credentials(self) -> Any:
        return {
            "access_key_id": self.credentials["access_key_id"],
            "secret_access_key": self.credentials["secret_access_key"],
            "token": self.credentials.get("session_token"),
            "expires_at": None,
        }
