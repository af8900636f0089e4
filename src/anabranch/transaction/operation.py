"""What a commit says of itself in `commitInfo`. See "Commit Provenance Information"."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import msgspec


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What is being done, in Delta's words."""

    name: str
    """`WRITE`, `DELETE`, `CREATE TABLE` …"""
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    user_metadata: str | None = None

    def encoded_parameters(self) -> dict[str, str]:
        """Parameters as the log holds them: a text as it is, anything else as the text of its JSON."""
        return {name: _as_text(value) for name, value in self.parameters.items() if value is not None}


def encoded_metrics(metrics: Mapping[str, int | str]) -> dict[str, str]:
    """Metrics as the log holds them."""
    return {name: str(value) for name, value in metrics.items()}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
