"""Which schema ids a broker knows, out of its replica of the registry's topic."""

from types import SimpleNamespace
from typing import Any, cast

from headrace.broker.handlers.schema_ids import READ_BYTES, SchemaIds
from headrace.broker.partitions.replicas import Replicas
from headrace.records.batch import build_batch
from headrace.records.record import Record


class Schemas:
    """A replica with one record per schema, as far as the broker's handlers look at one."""

    def __init__(self, *ids: int, settled: int, padding: int = 0) -> None:
        self.high_watermark = settled
        self.log = self
        self.start_offset, self.end_offset = 0, len(ids)
        self._batches = [
            build_batch([Record(0, 0, b"k", b'{"id":%d,"schema":"%s"}' % (id, b"x" * padding), ())], base_offset=offset)
            for offset, id in enumerate(ids)
        ]

    def read(self, offset: int, *, max_bytes: int, up_to: int, **_: Any) -> Any:
        data, following = b"", offset
        while following < up_to and (not data or len(data) + len(self._batches[following]) <= max_bytes):
            data += self._batches[following]
            following += 1
        return SimpleNamespace(data=data, next_offset=following)


def known_by(schemas: Schemas | None) -> SchemaIds:
    return SchemaIds(cast(Replicas, SimpleNamespace(get=lambda _: schemas)))


def test_ids_are_those_of_the_topic() -> None:
    known = known_by(Schemas(3, 4, settled=2))

    assert [known.has(id) for id in (3, 4, 5)] == [True, True, False]


def test_a_broker_without_a_replica_lets_every_id_pass() -> None:
    assert known_by(None).has(7)


def test_a_follower_knows_an_id_before_it_hears_that_all_others_have_it() -> None:
    """The registry has answered by then, and a record with that id may already be here: to refuse it would be to lose it."""
    schemas = Schemas(3, 4, settled=1)
    known = known_by(schemas)

    assert known.has(4)
    schemas.end_offset = 1  # what was not settled may yet be cut
    assert not known.has(4)


def test_a_large_topic_is_read_in_steps() -> None:
    schemas = Schemas(*range(1, 11), settled=10, padding=READ_BYTES // 2)

    assert len(list(known_by(schemas).read_on())) == 10
