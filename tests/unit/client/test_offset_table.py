"""The offsets of exactly_once in a SQL database."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import InvalidArgument
from headrace.client.exactly_once.exactly_once import paramstyle_of
from headrace.client.exactly_once.offset_table import NOTHING_YET, OffsetTable, Overtaken
from headrace.model.identity import TopicPartition

PLACE = TopicPartition("orders", 3)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = sqlite3.connect(tmp_path / "base")
    yield opened
    opened.close()


@pytest.mark.parametrize("paramstyle", ["qmark", "named"])
def test_an_offset_moves_with_the_transaction_it_is_in(connection: sqlite3.Connection, paramstyle: str) -> None:
    table = OffsetTable(connection, "positions", "billing", paramstyle)
    table.create()
    assert table.read_or_begin(PLACE) == NOTHING_YET

    table.move(connection.cursor(), PLACE, NOTHING_YET, 10)
    connection.rollback()
    assert table.read_or_begin(PLACE) == NOTHING_YET

    table.move(connection.cursor(), PLACE, NOTHING_YET, 10)
    connection.commit()
    assert table.read_or_begin(PLACE) == 10


def test_a_reader_that_was_overtaken_cannot_move_the_offset(connection: sqlite3.Connection, tmp_path: Path) -> None:
    table = OffsetTable(connection, "positions", "billing", "qmark")
    table.create()
    table.read_or_begin(PLACE)
    other = sqlite3.connect(tmp_path / "base")
    OffsetTable(other, "positions", "billing", "qmark").move(other.cursor(), PLACE, NOTHING_YET, 4)
    other.commit()
    other.close()

    with pytest.raises(Overtaken, match=r"another reader of group 'billing' has moved on in orders\[3\]"):
        table.move(connection.cursor(), PLACE, NOTHING_YET, 7)


def test_groups_and_partitions_do_not_touch_each_other(connection: sqlite3.Connection) -> None:
    first, second = (OffsetTable(connection, "positions", group, "qmark") for group in ("a", "b"))
    first.create()
    for table in (first, second):
        table.read_or_begin(PLACE)
    first.move(connection.cursor(), PLACE, NOTHING_YET, 5)
    connection.commit()

    assert second.read_or_begin(PLACE) == NOTHING_YET
    assert first.read_or_begin(TopicPartition("orders", 4)) == NOTHING_YET
    assert first.read_or_begin(PLACE) == 5


def test_a_connection_that_commits_by_itself_is_found_out(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "base", isolation_level=None)
    table = OffsetTable(connection, "positions", "billing", "qmark")
    table.create()

    with pytest.raises(InvalidArgument, match="commits by itself"):
        table.check_transaction_is_open()
    connection.close()


@pytest.mark.parametrize("name", ["a b", "x; DROP TABLE users", "", "1st"])
def test_a_table_name_that_is_none_is_refused(connection: sqlite3.Connection, name: str) -> None:
    with pytest.raises(InvalidArgument, match="table="):
        OffsetTable(connection, name, "g", "qmark")


def test_the_parameter_style_is_the_modules_own(connection: sqlite3.Connection) -> None:
    class Mine(sqlite3.Connection):
        pass

    assert paramstyle_of(connection) == "qmark"
    assert paramstyle_of(Mine(":memory:")) == "qmark"
    with pytest.raises(InvalidArgument, match="paramstyle"):
        paramstyle_of(object())
