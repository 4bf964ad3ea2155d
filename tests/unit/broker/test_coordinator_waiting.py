"""One registry of who waits for what in a coordinator: answered, refused or late, and forgotten in each case."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from headrace.broker.coordinators.waiting import STALE_DEADLINES_MAX, MarkersOf, ReplyTo, Waiting
from headrace.model.errors import ErrorCode, RequestError

MARKERS = MarkersOf(3, "t")
MOVED = RequestError(ErrorCode.NOT_COORDINATOR, "the coordinator has moved")


def run(story: Callable[[Waiting], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(5):
            await story(Waiting())

    asyncio.run(bounded())


async def begun(*waits: Awaitable[object]) -> "Sequence[asyncio.Future[object]]":
    """The waits, once all of them stand in the registry."""
    tasks = [asyncio.ensure_future(each) for each in waits]
    await asyncio.sleep(0)
    return tasks


def test_an_answer_reaches_all_who_wait_for_it_and_nobody_else() -> None:
    async def story(waiting: Waiting) -> None:
        first, second, other = await begun(waiting.wait(MARKERS), waiting.wait(MARKERS), waiting.wait(ReplyTo(3, 1)))
        waiting.answer(MARKERS, "written")

        assert await first == await second == "written"
        assert not other.done()
        assert len(waiting) == 1
        other.cancel()

    run(story)


def test_whoever_goes_away_is_forgotten_and_its_answer_with_it() -> None:
    async def story(waiting: Waiting) -> None:
        (gone,) = await begun(waiting.wait(MARKERS))
        gone.cancel()
        await asyncio.wait([gone])
        waiting.answer(MARKERS, "written")

        assert MARKERS not in waiting
        assert len(waiting) == 0

    run(story)


def test_what_is_not_answered_in_time_is_refused_with_the_word_for_it() -> None:
    async def story(waiting: Waiting) -> None:
        late, limited, patient = await begun(
            waiting.wait(MARKERS, 0.01), waiting.wait(ReplyTo(3, 1)), waiting.wait(ReplyTo(3, 2))
        )
        waiting.limit(ReplyTo(3, 1), 0.005, RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "not confirmed"))

        with pytest.raises(RequestError) as refused:
            await late
        assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
        with pytest.raises(RequestError, match="not confirmed"):
            await limited
        assert not patient.done()
        patient.cancel()

    run(story)


def test_a_deadline_spares_who_comes_later_for_the_same() -> None:
    async def story(waiting: Waiting) -> None:
        (early,) = await begun(waiting.wait(MARKERS, 0.005))
        (later,) = await begun(waiting.wait(MARKERS, 5))
        with pytest.raises(RequestError):
            await early
        waiting.answer(MARKERS, "written")

        assert await later == "written"

    run(story)


def test_those_of_a_partition_that_has_moved_are_all_refused_each_with_an_error_of_its_own() -> None:
    async def story(waiting: Waiting) -> None:
        reply, markers, elsewhere = await begun(waiting.wait(ReplyTo(3, 1)), waiting.wait(MARKERS), waiting.wait(ReplyTo(4, 2)))
        waiting.refuse_where(lambda key: key in (ReplyTo(3, 1), MARKERS), MOVED)
        errors = await asyncio.gather(reply, markers, return_exceptions=True)

        assert [str(error) for error in errors] == ["the coordinator has moved"] * 2
        assert errors[0] is not errors[1]
        assert not elsewhere.done()
        elsewhere.cancel()

    run(story)


def test_turns_are_taken_in_the_order_of_coming_and_whoever_leaves_lets_the_next_one_by() -> None:
    async def story(waiting: Waiting) -> None:
        seen: list[str] = []
        go = asyncio.Event()

        async def visit(name: str) -> None:
            async with waiting.turn("line"):
                seen.append(name)
                await go.wait()

        first, second, third, fourth = await begun(*(visit(name) for name in ("first", "second", "third", "fourth")))
        assert waiting.standing("line") == 4
        second.cancel()
        await asyncio.wait([second])
        assert seen == ["first"]
        go.set()
        await asyncio.gather(first, third, fourth)

        assert seen == ["first", "third", "fourth"]
        assert "line" not in waiting

    run(story)


def test_deadlines_of_those_who_were_answered_do_not_pile_up() -> None:
    async def story(waiting: Waiting) -> None:
        (parked,) = await begun(waiting.wait(MARKERS))
        for token in range(20 * STALE_DEADLINES_MAX):
            (answered,) = await begun(waiting.wait(ReplyTo(3, token), 60))
            waiting.answer(ReplyTo(3, token), None)
            await answered

        assert len(waiting._deadlines) <= 2 * STALE_DEADLINES_MAX
        parked.cancel()

    run(story)
