"""What gateways agree on, as entries of one log: who is there, which things are kept, and whose each is.  No I/O, no clock.

All read the same log and decide alike.  A change names the version that follows the one its writer saw: of two that name the
same, the first in the log counts and the other does not.  Every change has a key of its own, so that compaction, which keeps the
last entry of a key, can never prefer the one that did not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

import orjson

Kind = Literal["gateway", "thing", "claim"]
KINDS: Final = ("gateway", "thing", "claim")


class Key(NamedTuple):
    """`nonce` is the writer's."""

    kind: str
    name: str
    version: int
    nonce: str

    def encoded(self) -> bytes:
        return f"{self.kind}/{self.name}/{self.version}/{self.nonce}".encode()


def read_key(raw: bytes | None) -> Key | None:
    """None for a key that is not ours."""
    try:
        kind, name, version, nonce = (raw or b"").decode().split("/")
        return Key(kind, name, int(version), nonce) if kind in KINDS else None
    except ValueError:
        return None


@dataclass(slots=True)
class Kept:
    """Something by its name; its document is empty once it is deleted."""

    version: int
    document: dict[str, Any]
    key: Key


@dataclass(slots=True)
class State:
    """The log, applied entry by entry."""

    gateways: dict[str, dict[str, Any]] = field(default_factory=dict)
    things: dict[str, Kept] = field(default_factory=dict)
    claims: dict[str, Kept] = field(default_factory=dict)  # by the name of the thing; the document has its owner
    stale: set[bytes] = field(default_factory=set)  # keys that say nothing any more

    def apply(self, raw_key: bytes | None, raw_value: bytes | None) -> bool:
        """Take one entry in; whether it counts."""
        key = read_key(raw_key)
        if key is None:
            return False
        if raw_value is None:
            self.stale.discard(key.encoded())
            return key.kind == "gateway" and self.gateways.pop(key.name, None) is not None
        try:
            document = orjson.loads(raw_value)
        except orjson.JSONDecodeError:
            return False
        if not isinstance(document, dict):
            return False
        if key.kind == "gateway":
            if not isinstance(document.get("url"), str):
                return False
            self.gateways[key.name] = document
            return True
        return self._apply_change(self.things if key.kind == "thing" else self.claims, key, document)

    def _apply_change(self, kept: dict[str, Kept], key: Key, document: dict[str, Any]) -> bool:
        now = kept.get(key.name)
        if now is not None and key.version <= now.version:
            if key != now.key:
                self.stale.add(key.encoded())
            return False
        if now is not None:
            self.stale.add(now.key.encoded())
        kept[key.name] = Kept(key.version, document, key)
        return True

    def owner_of(self, name: str) -> str | None:
        claim = self.claims.get(name)
        return None if claim is None else claim.document.get("owner")

    def documents(self) -> Iterator[tuple[str, int, dict[str, Any]]]:
        """All that is kept, with its version."""
        for name, kept in self.things.items():
            if kept.document:
                yield name, kept.version, kept.document
