"""Where a group's offsets go when they are reset.  New offsets never lie outside of what the partition holds."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from headrace.cli.topics.positions import Position, bounds, parse_position, resolve

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


@dataclass(frozen=True, slots=True)
class Shift:
    """So many records on from the committed offset, or back."""

    records: int


def reset_place(to: str | None, by: int | None) -> Position | Shift:
    """What --to and --by ask for: exactly one of them must be given."""
    if (to is None) == (by is None):
        raise typer.BadParameter("Give --to PLACE or --by RECORDS, and only one of them.")
    return parse_position(to) if to is not None else Shift(by or 0)


def plan_reset(
    admin: "AdminClient", chosen: list[tuple[str, int]], committed: dict[tuple[str, int], int], place: Position | Shift
) -> dict[tuple[str, int], int]:
    """The new offset of each chosen partition."""
    doing = "looking for the new offsets"
    limits = bounds(admin, chosen, doing)
    if isinstance(place, Shift):
        targets = {at: committed[at] + place.records for at in chosen}
    else:
        targets = resolve(admin, dict.fromkeys(chosen, place), doing)
    return {at: min(max(targets[at], low), high) for at, (low, high) in limits.items()}
