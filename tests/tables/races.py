"""How a prepared statement ends, once others have landed before it."""

from __future__ import annotations

import pytest

from anabranch.commands.statement import Prepared
from anabranch.exceptions import DeltaConcurrentModificationException


def land(prepared: Prepared) -> None:
    with prepared:
        prepared.commit()


def lose(prepared: Prepared, error: type[DeltaConcurrentModificationException]) -> DeltaConcurrentModificationException:
    with prepared, pytest.raises(error) as raised:
        prepared.commit()
    return raised.value
