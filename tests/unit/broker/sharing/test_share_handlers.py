"""ShareFetch and ShareAcknowledge with just the parts that they touch: sessions, partitions in memory, a state that is kept."""

import asyncio
from dataclasses import replace

import pytest

from headrace.broker.network.memory_account import MemoryAccount
from headrace.controller.entries import BrokerRegistration, Endpoint
from headrace.coordination.share.breaker import BreakerLimits
from headrace.model.errors import ErrorCode
from headrace.records.record import read_records
from tests.support import share_requests
from tests.support.share_requests import ACCEPT, FINAL, REJECT, RELEASE, RENEW
from tests.support.waiting import until_async
from tests.unit.broker.handlers.replicas_in_memory import ELSEWHERE, HERE, TOPIC_ID
from tests.unit.broker.sharing.share_stage import Stage, play


def test_a_record_is_one_members_until_it_is_accepted_and_then_nobodys() -> None:
    async def story() -> None:
        stage = Stage()
        stage.produce(b"a", b"b", b"c")
        ann, bob = stage.member("ann"), stage.member("bob")

        reply = await ann.fetch(0)
        data = reply.responses[0].partitions[0]
        assert [record.value for record in read_records(data.records)] == [b"a", b"b", b"c"]
        assert [(each.first_offset, each.last_offset) for each in data.acquired_records] == [(0, 2)]
        assert await bob.take(0) == []
        assert await ann.say(0, 2, ACCEPT) == ErrorCode.NONE
        assert await bob.take() == []
        assert stage.kept.writes[-1].start_offset == 3

    play(story)


def test_what_is_released_goes_to_the_next_and_its_deliveries_are_counted() -> None:
    async def story() -> None:
        stage = Stage(delivery_count_limit=2)
        stage.produce(b"a", b"b")
        ann, bob = stage.member("ann"), stage.member("bob")
        await ann.take(0)
        assert await ann.say(0, 1, RELEASE, REJECT) == ErrorCode.NONE

        assert await bob.take(0) == [(0, 0, 2)]
        assert await bob.say(0, 0, RELEASE) == ErrorCode.NONE
        assert await ann.take() == []  # that was its last delivery

    play(story)


def test_nobody_acknowledges_what_is_not_theirs() -> None:
    async def story() -> None:
        stage = Stage()
        stage.produce(b"a")
        ann, bob = stage.member("ann"), stage.member("bob")
        await ann.take(0)
        await bob.take(0)

        assert await bob.say(0, 0, ACCEPT) == ErrorCode.INVALID_RECORD_STATE
        assert await ann.say(0, 5, ACCEPT) == ErrorCode.INVALID_REQUEST
        assert await ann.say(0, 0, 9) == ErrorCode.INVALID_REQUEST
        assert await ann.say(0, 0, ACCEPT, index=7) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await ann.say(0, 0, ACCEPT) == ErrorCode.NONE

    play(story)


def test_a_session_expects_its_epochs_in_turn() -> None:
    async def story() -> None:
        stage = Stage(sessions_max=1)
        ann = stage.member("ann")
        ann.epoch = 3
        assert (await ann.fetch()).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        ann.epoch = 0
        await ann.take(0)
        ann.epoch = 2
        assert (await ann.fetch()).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        assert (await ann.acknowledge(0, 0, ACCEPT, share_session_epoch=0)).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        assert (await stage.member("bob").fetch(0)).error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        assert (await ann.fetch(share_session_epoch=FINAL)).error_code == ErrorCode.NONE
        assert (await stage.member("bob").fetch(0)).error_code == ErrorCode.NONE

    play(story)


def test_a_fetch_that_says_nothing_sensible_is_refused() -> None:
    async def story() -> None:
        member = Stage().member()
        for wrong in ({"group_id": ""}, {"member_id": ""}, {"share_acquire_mode": 7}, {"is_renew_ack": True}):
            assert (await member.fetch(0, **wrong)).error_code == ErrorCode.INVALID_REQUEST

    play(story)


def test_partitions_of_a_session_are_remembered_and_forgotten() -> None:
    async def story() -> None:
        stage = Stage(HERE, HERE)
        ann = stage.member()
        assert await ann.take(0) == []
        assert await ann.take(1) == []
        stage.produce(b"a", index=0)
        stage.produce(b"b", index=1)
        assert len(await ann.take(forget=(1,))) == 1
        assert await ann.take() == []

    play(story)


def test_who_closes_its_session_or_loses_its_connection_gives_its_records_back_at_once() -> None:
    async def story() -> None:
        stage = Stage()
        stage.produce(b"a", b"b")
        bob = stage.member("bob")
        await bob.take(0, max_records=0)
        for end in ("closed", "lost"):
            ann = stage.member("ann")
            taken = await ann.take(0)
            assert taken
            if end == "closed":
                await ann.fetch(share_session_epoch=FINAL)
                assert not ann.connection.when_lost
            else:
                ann.lose_connection()
            count = taken[0][2]
            # Who says goodbye had not begun; of who is lost nobody knows.
            assert await bob.take() == [(0, 1, count if end == "closed" else count + 1)]
            assert await bob.say(0, 1, RELEASE) == ErrorCode.NONE

    play(story)


def test_a_fetch_waits_until_there_are_records_or_others_give_some_back() -> None:
    async def story() -> None:
        stage = Stage()
        ann, bob = stage.member("ann"), stage.member("bob")
        waiting = asyncio.create_task(ann.take(0, max_wait_ms=60_000))
        await stage.somebody_waits()
        stage.produce(b"a")
        assert await waiting == [(0, 0, 1)]

        waiting = asyncio.create_task(bob.take(0, max_wait_ms=60_000))
        await stage.somebody_waits()
        await ann.say(0, 0, RELEASE)
        assert await waiting == [(0, 0, 2)]
        assert not stage.replicas.find("t", 0).readers

    play(story)


def test_nothing_is_acquired_for_somebody_who_has_gone() -> None:
    async def story() -> None:
        stage = Stage()
        ann, bob = stage.member("ann"), stage.member("bob")
        waiting = asyncio.create_task(ann.take(0, max_wait_ms=60_000))
        await stage.somebody_waits()
        ann.lose_connection()
        stage.produce(b"a")
        assert await waiting == []
        assert await bob.take(0) == [(0, 0, 1)]

    play(story)


def test_a_lock_that_runs_out_frees_the_record() -> None:
    async def story() -> None:
        stage = Stage(lock_duration_ms=50)
        stage.produce(b"a")
        ann, bob = stage.member("ann"), stage.member("bob")
        await ann.take(0)

        assert [taken[:2] for taken in await bob.take(0, max_wait_ms=60_000)] == [(0, 0)]
        assert await ann.say(0, 0, ACCEPT) == ErrorCode.INVALID_RECORD_STATE

    play(story)


def test_a_lock_that_is_renewed_lasts_longer() -> None:
    async def story() -> None:
        stage = Stage()
        stage.produce(b"a")
        ann = stage.member()
        await ann.take(0)
        share = await stage.partitions.find("workers", TOPIC_ID, 0).loaded()
        before = share.next_deadline()

        assert await ann.say(0, 0, RENEW, is_renew_ack=True) == ErrorCode.NONE
        after = share.next_deadline()
        assert before is not None
        assert after is not None
        assert after > before
        assert await ann.say(0, 0, ACCEPT) == ErrorCode.NONE

    play(story)


def test_renewal_needs_a_request_that_says_so_and_a_group_that_allows_it() -> None:
    async def story() -> None:
        stage = Stage(renewal_enabled=False)
        stage.produce(b"a")
        ann = stage.member()
        await ann.take(0)
        assert await ann.say(0, 0, RENEW) == ErrorCode.INVALID_REQUEST
        assert await ann.say(0, 0, RENEW, is_renew_ack=True) == ErrorCode.INVALID_RECORD_STATE

    play(story)


def test_batches_come_whole_unless_the_limit_of_records_is_meant_strictly() -> None:
    async def story() -> None:
        stage = Stage()
        stage.produce(b"a", b"b", b"c")
        ann, bob = stage.member("ann"), stage.member("bob")
        assert await ann.take(0, max_records=2, share_acquire_mode=1) == [(0, 1, 1)]
        await ann.say(0, 1, RELEASE)
        assert await bob.take(0, max_records=2) == [(0, 1, 2), (2, 2, 1)]

    play(story)


def test_a_share_coordinator_that_is_away_for_a_moment_is_waited_for() -> None:
    async def story() -> None:
        stage = Stage()
        stage.produce(b"a")
        ann = stage.member()
        stage.kept.is_away = True
        assert (await ann.fetch(0)).responses == ()  # no error: consumers would not know what to do about it
        waiting = asyncio.create_task(ann.take(max_wait_ms=60_000))
        await until_async(lambda: stage.kept.reads > 1, "it was asked in vain")
        stage.kept.is_away = False
        assert await waiting == [(0, 0, 1)]

    play(story)


def test_a_share_coordinator_that_is_away_is_asked_again_after_a_while_and_not_at_once() -> None:
    async def story() -> None:
        stage = Stage()
        stage.kept.is_away = True
        assert await stage.member().take(0, max_wait_ms=300) == []
        assert stage.kept.reads <= 5

    play(story)


def test_word_that_could_not_be_kept_does_not_count_and_the_records_come_again() -> None:
    async def story() -> None:
        stage = Stage()
        stage.produce(b"a")
        ann, bob = stage.member("ann"), stage.member("bob")
        await ann.take(0)
        await bob.take(0)
        stage.kept.refuses_writes = ErrorCode.FENCED_STATE_EPOCH
        assert await ann.say(0, 0, ACCEPT) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        stage.kept.refuses_writes = None

        assert await bob.take() == [(0, 0, 1)]

    play(story)


def test_words_that_come_while_one_is_written_are_written_together() -> None:
    async def story() -> None:
        stage = Stage()
        stage.produce(*(b"%d" % number for number in range(5)))
        members = [stage.member(str(number)) for number in range(5)]
        for number, member in enumerate(members):
            assert await member.take(0, max_records=1, share_acquire_mode=1) == [(number, number, 1)]

        said = await asyncio.gather(*(member.say(number, number, ACCEPT) for number, member in enumerate(members)))
        assert set(said) == {ErrorCode.NONE}
        assert len(stage.kept.writes) == 1
        assert stage.kept.writes[-1].start_offset == 5

    play(story)


def test_a_partition_that_is_led_elsewhere_is_refused_with_the_leaders_address() -> None:
    async def story() -> None:
        stage = Stage(ELSEWHERE)
        stage.image.brokers[2] = BrokerRegistration(broker_id=2, endpoints={"PLAINTEXT": Endpoint(host="away", port=9)})
        ann = stage.member()
        reply = await ann.fetch(0)
        data = reply.responses[0].partitions[0]
        assert (data.error_code, data.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)
        assert [(each.node_id, each.host) for each in reply.node_endpoints] == [(2, "away")]
        assert (await ann.acknowledge(0, 0, ACCEPT)).node_endpoints == reply.node_endpoints

    play(story)


def test_a_new_leadership_forgets_who_had_what_and_begins_with_what_is_kept() -> None:
    async def story() -> None:
        stage = Stage()
        stage.produce(b"a", b"b")
        ann, bob = stage.member("ann"), stage.member("bob")
        await ann.take(0)
        assert await ann.say(0, 0, ACCEPT) == ErrorCode.NONE
        partition = stage.replicas.find("t", 0)
        partition.lead(replace(HERE, leader_epoch=4), partition.leadership)

        assert await bob.take(0) == [(1, 1, 1)]
        assert await ann.say(1, 1, ACCEPT) == ErrorCode.INVALID_RECORD_STATE
        partition.follow(replace(HERE, leader=2, leader_epoch=5))
        for heard in stage.changes.on_role:
            heard(partition)
        assert await bob.say(1, 1, ACCEPT) == ErrorCode.NOT_LEADER_OR_FOLLOWER

    play(story)


def test_nothing_is_acquired_that_there_is_no_memory_to_deliver_from() -> None:
    async def story() -> None:
        stage = Stage()
        stage.produce(b"a")
        ann = stage.member()
        account = MemoryAccount(1000, asyncio.get_running_loop().call_soon)
        ann.connection.share = account.open()
        account.open().settle(0, 1000)
        assert await ann.take(0) == []
        assert await stage.member("bob").take(0) == [(0, 0, 1)]

    play(story)


def test_who_reads_more_than_its_quota_is_told_to_wait() -> None:
    async def story() -> None:
        stage = Stage()
        stage.produce(b"x" * 1000)
        ann = stage.member()
        await ann.take(0, max_records=0)
        stage.quotas["user=ANONYMOUS"] = {"consumer_byte_rate": "1.0"}
        stage.sharing.throttling.quotas.on_change()
        reply = await ann.fetch()
        assert reply.throttle_time_ms > 0
        assert ann.connection.rests

    play(story)


def test_what_is_released_rests_and_others_need_not_wait_for_it() -> None:
    async def story() -> None:
        stage = Stage(backoff_ms=60_000)
        stage.produce(b"a")
        ann, bob = stage.member("ann"), stage.member("bob")
        await ann.take(0)
        assert await ann.say(0, 0, RELEASE) == ErrorCode.NONE

        assert await bob.take(0) == []
        stage.produce(b"b")
        assert await bob.take() == [(1, 1, 1)]

    play(story)


def test_a_fetch_that_waits_gets_what_has_rested_long_enough() -> None:
    async def story() -> None:
        stage = Stage(backoff_ms=100)
        stage.produce(b"a")
        ann, bob = stage.member("ann"), stage.member("bob")
        await ann.take(0)
        released = asyncio.get_running_loop().time()
        assert await ann.say(0, 0, RELEASE) == ErrorCode.NONE

        assert await bob.take(0, max_wait_ms=60_000) == [(0, 0, 2)]
        assert asyncio.get_running_loop().time() - released >= 0.075

    play(story)


def test_of_a_partition_that_is_named_twice_both_words_count() -> None:
    async def story() -> None:
        stage = Stage()
        stage.produce(b"a", b"b")
        ann = stage.member("ann")
        await ann.take(0)
        one, two = (
            share_requests.acknowledge("workers", "ann", 1, TOPIC_ID, offset, offset, ACCEPT).topics[0] for offset in (0, 1)
        )
        assert (await ann.acknowledge(0, 0, ACCEPT, topics=(one, two))).error_code == ErrorCode.NONE
        ann.lose_connection()

        assert await stage.member("bob").take(0) == []

    play(story)


def test_what_a_member_did_not_speak_of_when_it_closed_its_session_does_not_count_as_delivered() -> None:
    async def story() -> None:
        stage = Stage()
        stage.produce(b"a", b"b")
        ann = stage.member("ann")
        await ann.take(0)
        ann.epoch = FINAL
        assert await ann.say(0, 0, ACCEPT) == ErrorCode.NONE

        assert await stage.member("bob").take(0) == [(1, 1, 1)]

    play(story)


def test_a_group_that_is_paused_gets_nothing_and_may_finish_what_it_has() -> None:
    async def story() -> None:
        stage = Stage()
        stage.produce(b"a")
        ann = stage.member("ann")
        await ann.take(0)
        stage.produce(b"b")
        stage.settings = replace(stage.settings, is_paused=True)
        assert await ann.take() == []
        assert await ann.say(0, 0, ACCEPT) == ErrorCode.NONE

        stage.settings = replace(stage.settings, is_paused=False)
        assert await ann.take() == [(1, 1, 1)]

    play(story)


def test_a_group_whose_records_are_given_up_is_paused_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        stage = Stage()
        stage.settings = replace(stage.settings, breaker=BreakerLimits(percent=50, records=2, pause_ms=60_000))
        stage.produce(b"a", b"b", b"c")
        ann = stage.member("ann")
        assert await ann.take(0, max_records=2, share_acquire_mode=1) == [(0, 1, 1)]
        assert await ann.say(0, 1, REJECT) == ErrorCode.NONE
        assert await ann.take() == []
        breakers = stage.partitions.breakers
        assert breakers.why_paused("workers").endswith("s more: 2 of 2 records were given up")
        assert breakers.open_count() == 1

        resumed = replace(stage.settings.breaker, resumed_ms=2**60)
        stage.settings = replace(stage.settings, breaker=resumed)
        assert await ann.take() == [(2, 2, 1)]
        assert breakers.why_paused("workers") == ""

    play(story)
    assert "share group workers: delivery pauses for 60 s, as 2 of the last 2 records were given up" in caplog.text
