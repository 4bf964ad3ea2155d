"""Where a group's offsets go when they are reset.  New offsets never lie outside of what the partition holds."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from headrace.cli.connection import position_given

if TYPE_CHECKING:
    from headrace.client.admin.admin import Admin
    from headrace.client.positions import Position
    from headrace.model.identity import TopicPartition


@dataclass(frozen=True, slots=True)
class Shift:
    """So many records on from the committed offset, or back."""

    records: int


def reset_position(to: str | None, by: int | None) -> "Position | Shift":
    """What --to and --by ask for: exactly one of them must be given."""
    if (to is None) == (by is None):
        raise typer.BadParameter("Give --to PLACE or --by RECORDS, and only one of them.")
    return position_given(to) if to is not None else Shift(by or 0)


def plan_reset(
    admin: "Admin", chosen: "list[TopicPartition]", committed: "dict[TopicPartition, int]", position: "Position | Shift"
) -> "dict[TopicPartition, int]":
    """The new offset of each chosen partition."""
    from headrace.client.positions import ranges, resolve

    limits = ranges(admin, chosen)
    if isinstance(position, Shift):
        targets = {at: committed[at] + position.records for at in chosen}
    else:
        targets = resolve(admin, dict.fromkeys(chosen, position))
    return {at: min(max(targets[at], low), high) for at, (low, high) in limits.items()}
