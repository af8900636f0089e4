"""When `WriteSerializable` lets a commit stand before an append that landed first."""

from __future__ import annotations

from anabranch.protocol.isolation import IsolationLevel
from anabranch.transaction.race import Race
from anabranch.transaction.winners import Winner


def may_stand_before(race: Race, winner: Winner) -> bool:
    """Whether ours may ignore rows of the winner: it read nothing to make them, and ours changes no metadata."""
    relaxed = race.ours.isolation is IsolationLevel.WRITE_SERIALIZABLE
    return relaxed and winner.is_blind_append and race.ours.metadata is None


def closes_a_cycle(race: Race, ignored: Winner) -> bool:
    """Rule R: we stand before the ignored append, so nobody who stands before us may have read it.

    The order would be the append, then who read it, then we, who stand before the append.
    """
    for winner in race.winners:
        later = winner.version > ignored.version and winner.changes_data and not winner.is_blind_append
        if later and (winner.read_version is None or winner.read_version >= ignored.version):
            return True
    return False
