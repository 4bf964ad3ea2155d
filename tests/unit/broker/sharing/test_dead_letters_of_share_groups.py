"""Dead letters of share groups: one for each record that is given up, written before it counts as done."""

from dataclasses import replace
from uuid import UUID

from headrace.broker.sharing.dead_letters import Burial, Grave
from headrace.coordination.share.entries import ShareKey
from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from headrace.model.topic_settings import LogConfig
from headrace.records.batch import iterate_batches
from tests.support.share_requests import ACCEPT, REJECT, RELEASE
from tests.unit.broker.handlers.replicas_in_memory import HERE, TOPIC_ID
from tests.unit.broker.sharing.share_stage import LETTERS, Stage, play


def burying(stage: Stage, *, copies: bool = True, topic: str = LETTERS) -> None:
    burial = Burial(topic, copies_record=copies, delivery_count_limit=stage.settings.limits.delivery_count_limit)
    stage.settings = replace(stage.settings, burial=burial)


def lead_anew(stage: Stage, epoch: int) -> None:
    partition = stage.replicas.find("t", 0)
    partition.lead(replace(HERE, leader_epoch=epoch), partition.leadership)


def test_a_rejected_record_and_one_delivered_in_vain_have_letters_and_an_accepted_one_has_none() -> None:
    async def story() -> None:
        stage = Stage(delivery_count_limit=2)
        burying(stage)
        stage.produce(b"good", b"bad", b"tired")
        ann = stage.member()
        await ann.take(0)
        assert await ann.say(0, 2, ACCEPT, REJECT, RELEASE) == ErrorCode.NONE
        await ann.take()
        assert await ann.say(2, 2, RELEASE) == ErrorCode.NONE

        bad, tired = stage.letters()
        assert (bad.key, bad.value, tired.value) == (b"k", b"bad", b"tired")
        told = dict(bad.headers)
        assert [told[f"__dlq.errors.{name}"] for name in ("topic", "partition", "offset", "group", "delivery.count")] == [
            *(b"t", b"0", b"1", b"workers", b"1")
        ]
        assert (told["headrace-dead-letter-cause"], dict(tired.headers)["headrace-dead-letter-cause"]) == (
            b"rejected",
            b"attempts",
        )
        assert await ann.take() == []

    play(story)


def test_without_copies_a_letter_has_headers_alone() -> None:
    async def story() -> None:
        stage = Stage()
        burying(stage, copies=False)
        stage.produce(b"bad")
        ann = stage.member()
        await ann.take(0)
        assert await ann.say(0, 0, REJECT) == ErrorCode.NONE

        (letter,) = stage.letters()
        assert (letter.key, letter.value) == (None, None)
        assert dict(letter.headers)["__dlq.errors.offset"] == b"0"

    play(story)


def test_when_a_broker_dies_after_the_letter_there_is_one_letter_and_the_record_comes_to_nobody() -> None:
    async def story() -> None:
        stage = Stage()
        burying(stage)
        stage.produce(b"bad", b"good")
        ann, bob = stage.member("ann"), stage.member("bob")
        await ann.take(0)
        stage.kept.refuses_writes = ErrorCode.NOT_COORDINATOR  # the letter is written, and the state is not
        assert await ann.say(0, 0, REJECT) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert len(stage.letters()) == 1
        stage.kept.refuses_writes = None
        lead_anew(stage, 4)

        assert await bob.take(0) == [(1, 1, 1)]
        assert await bob.say(1, 1, REJECT) == ErrorCode.NONE
        assert [letter.value for letter in stage.letters()] == [b"bad", b"good"]
        lead_anew(stage, 5)
        assert await stage.member("eve").take(0) == []
        assert len(stage.letters()) == 2

    play(story)


def test_a_record_whose_letter_cannot_be_written_is_not_given_up() -> None:
    async def story() -> None:
        stage = Stage()
        burying(stage)
        stage.produce(b"bad")
        ann, bob = stage.member("ann"), stage.member("bob")
        await ann.take(0)
        del stage.image.brokers[1]  # whoever would take the letter is away
        assert await ann.say(0, 0, REJECT) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert stage.kept.writes == []
        stage.image.brokers[1] = stage.registration

        assert await bob.take(0, max_wait_ms=5_000) == [(0, 0, 1)]
        assert stage.letters() == []

    play(story)


def test_offsets_that_are_moved_by_hand_make_buried_records_new_again() -> None:
    async def story() -> None:
        stage = Stage()
        burying(stage)
        stage.produce(b"bad")
        ann = stage.member("ann")
        await ann.take(0)
        assert await ann.say(0, 0, REJECT) == ErrorCode.NONE
        stage.kept.move_to(0, state_epoch=1)
        lead_anew(stage, 4)

        assert await stage.member("bob").take(0) == [(0, 0, 1)]

    play(story)


def test_thousands_of_letters_at_once_go_in_batches_that_every_leader_takes() -> None:
    async def story() -> None:
        stage = Stage()
        burying(stage, copies=False)
        stage.produce(*[b"bad"] * 2_000)
        ann = stage.member("ann")
        await ann.take(0, max_records=2_000)
        assert await ann.say(0, 1_999, REJECT) == ErrorCode.NONE

        log = stage.replicas.find(LETTERS, 0).log
        data = log.read(0, max_bytes=1 << 23, up_to=log.end_offset, at_least_one=True).data
        assert log.end_offset == 2_000
        assert max(len(batch) for _, batch in iterate_batches(data)) <= LogConfig().max_message_bytes

    play(story)


def test_letters_say_nothing_of_the_records_of_a_topic_that_was_deleted_and_made_anew() -> None:
    async def story() -> None:
        stage = Stage()
        burying(stage)
        stage.produce(b"bad")
        ann = stage.member("ann")
        await ann.take(0)
        assert await ann.say(0, 0, REJECT) == ErrorCode.NONE
        assert stage.settings.burial is not None
        graves = [Grave(ShareKey("workers", topic_id, 0), TopicPartition("t", 0), 0) for topic_id in (TOPIC_ID, UUID(int=1))]

        found = [await stage.dead_letters.found(grave, stage.settings.burial, 0) for grave in graves]

        assert [len(each) for each in found] == [1, 0]

    play(story)
