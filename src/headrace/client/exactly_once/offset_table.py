"""The table of offsets in somebody's database, in the SQL that every database has."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from headrace.client.errors import Fenced, InvalidArgument
from headrace.model.identity import TopicPartition

TABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
NOTHING_YET = -1
PLACEHOLDERS: dict[str, Callable[[int], str]] = {
    "qmark": lambda number: "?",
    "format": lambda number: "%s",
    "pyformat": lambda number: f"%(p{number})s",
    "numeric": lambda number: f":{number}",
    "named": lambda number: f":p{number}",
}


class Overtaken(Fenced):
    """Another reader of the group has moved the offset: its effects are in the database, ours must not be."""


class OffsetTable:
    def __init__(self, connection: Any, table: str, group: str, paramstyle: str) -> None:
        if not TABLE_NAME.fullmatch(table):
            raise InvalidArgument(
                f"table={table!r} is not accepted; accepted: a name of letters, digits and '_', perhaps with a schema before it"
            )
        if paramstyle not in PLACEHOLDERS:
            raise InvalidArgument(f"paramstyle={paramstyle!r} is not accepted; accepted: {', '.join(map(repr, PLACEHOLDERS))}")
        self._connection = connection
        self._table = table
        self._group = group
        self._paramstyle = paramstyle

    def create(self) -> None:
        cursor = self._connection.cursor()
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {self._table} (consumer_group VARCHAR(255) NOT NULL, topic VARCHAR(249) NOT NULL, "
            "topic_partition INTEGER NOT NULL, next_offset BIGINT NOT NULL, PRIMARY KEY (consumer_group, topic, topic_partition))"
        )
        self._connection.commit()

    def read_or_begin(self, place: TopicPartition) -> int:
        """The next offset of a partition; a row that says "nothing yet" is made where there is none, for `move` to hold on to."""
        found = self._read(place)
        if found is not None:
            return found
        cursor = self._connection.cursor()
        try:
            self._execute(
                cursor,
                f"INSERT INTO {self._table} (consumer_group, topic, "
                f"topic_partition, next_offset) VALUES ({{}}, {{}}, {{}}, {{}})",
                (self._group, *place, NOTHING_YET),
            )
            self._connection.commit()
        except Exception:
            # Somebody else may have made it in the meantime; then it is there to be read.
            self._connection.rollback()
            found = self._read(place)
            if found is None:
                raise
            return found
        return NOTHING_YET

    def _read(self, place: TopicPartition) -> int | None:
        cursor = self._connection.cursor()
        self._execute(
            cursor,
            f"SELECT next_offset FROM {self._table} WHERE consumer_group = {{}} AND topic = {{}} AND topic_partition = {{}}",
            (self._group, *place),
        )
        row = cursor.fetchone()
        # Reading opens a transaction in some databases, and an old one would not see what others commit.
        self._connection.rollback()
        return None if row is None else int(row[0])

    def move(self, cursor: Any, place: TopicPartition, known: int, to: int) -> None:
        """Claim the records from `known` to `to`, inside the caller's transaction; Overtaken when somebody else has."""
        self._execute(
            cursor,
            f"UPDATE {self._table} SET next_offset = {{}} WHERE consumer_group "
            f"= {{}} AND topic = {{}} AND topic_partition = {{}} "
            "AND next_offset = {}",
            (to, self._group, *place, known),
        )
        if cursor.rowcount != 1:
            raise Overtaken(f"another reader of group '{self._group}' has moved on in {place.topic}[{place.partition}]")

    def check_transaction_is_open(self) -> None:
        """A connection that commits each statement would take the offset without the effect."""
        if getattr(self._connection, "in_transaction", True) is False:
            raise InvalidArgument("connection commits by itself (autocommit); accepted: one whose changes wait for commit()")

    def _execute(self, cursor: Any, statement: str, values: tuple[object, ...]) -> None:
        marks = [PLACEHOLDERS[self._paramstyle](number) for number in range(1, len(values) + 1)]
        named = self._paramstyle in ("pyformat", "named")
        cursor.execute(
            statement.format(*marks), {f"p{number}": value for number, value in enumerate(values, 1)} if named else values
        )
