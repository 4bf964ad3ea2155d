"""Nothing dies in silence: each task has a parent, a name and a rule for its death."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from headrace.broker.supervision import supervision
from headrace.broker.supervision.supervision import (
    DEATHS_MAX,
    PAUSE_S_MAX,
    WINDOW_S,
    Again,
    Deaths,
    End,
    Nothing,
    Rule,
    Supervisor,
    verdict,
)
from headrace.testing.clock import AdjustableClock


def tell(story: Callable[[Supervisor, AdjustableClock], Awaitable[None]]) -> None:
    async def run() -> None:
        clock = AdjustableClock()
        supervisor = Supervisor(clock)
        async with asyncio.timeout(10):
            await story(supervisor, clock)
            await supervisor.close()

    asyncio.run(run())


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "PAUSE_S", 0.0001)


class Patient:
    """Dies when told to, and counts its lives."""

    def __init__(self) -> None:
        self.lives = 0
        self.told: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def __call__(self) -> None:
        self.lives += 1
        self.told = asyncio.get_running_loop().create_future()
        await self.told

    async def die(self, error: Exception) -> None:
        lives = self.lives
        self.told.set_exception(error)
        await until(lambda: self.lives > lives)


def test_pauses_grow_with_each_death_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "PAUSE_S", 0.1)
    clock, deaths, pauses = AdjustableClock(), Deaths(), list[float]()
    supervisor = Supervisor(clock)
    for _ in range(2_000):
        following = supervisor.on_death("watch", Rule.RESTART, deaths, ValueError("oh"))
        assert isinstance(following, Again)
        pauses.append(following.pause_s)
        clock.advance(following.pause_s)

    assert pauses[:3] == [0.1, 0.2, 0.4]
    assert set(pauses[7:]) == {PAUSE_S_MAX}
    clock.advance(WINDOW_S + 1)
    assert supervisor.on_death("watch", Rule.RESTART, deaths, ValueError("oh")) == Again(0.1)


@pytest.mark.parametrize(
    ("rule", "deaths", "expected"),
    [
        (Rule.END, 1, End()),
        (Rule.LOG, 1, Nothing()),
        (Rule.RESTART_OR_END, DEATHS_MAX + 1, End()),
    ],
)
def test_what_follows_a_death_is_the_rules_word(rule: Rule, deaths: int, expected: object) -> None:
    assert verdict(rule, deaths, deaths) == expected


def test_deaths_are_forgiven_after_a_minute() -> None:
    deaths = Deaths()
    for moment in (0.0, 1.0, WINDOW_S + 0.5):
        deaths.note(ValueError("oh"), moment)

    assert list(deaths.moments) == [1.0, WINDOW_S + 0.5]


def test_a_task_that_dies_is_begun_again_and_logged_with_its_name_and_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    async def story(supervisor: Supervisor, clock: AdjustableClock) -> None:
        patient = Patient()
        service = supervisor.start("watch", patient, Rule.RESTART, subject="7")
        await until(lambda: patient.lives == 1)
        await patient.die(ValueError("oh"))

        assert service.lives == patient.lives == 2
        assert supervisor.troubles() == ("watch 7 failed: ValueError: oh",)
        clock.advance(WINDOW_S + 1)
        assert supervisor.troubles() == ()

    tell(story)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "watch 7 failed" in record.message
    assert record.exc_info is not None


def test_a_task_that_should_go_on_for_ever_and_returns_has_died() -> None:
    async def story(supervisor: Supervisor, clock: AdjustableClock) -> None:
        lives = []

        async def short() -> None:
            lives.append(1)

        supervisor.start("short", short, Rule.RESTART)
        await until(lambda: len(lives) > 1)

        assert supervisor.troubles() == ("short failed: Ended: it returned",)

    tell(story)


def test_work_that_comes_to_an_end_is_over_then() -> None:
    async def story(supervisor: Supervisor, clock: AdjustableClock) -> None:
        async def short() -> None:
            return

        service = supervisor.run("short", short, Rule.RESTART)
        await until(lambda: service.is_over)

        assert service.lives == 1
        assert list(supervisor.services()) == []
        assert supervisor.troubles() == ()

    tell(story)


def test_a_task_that_dies_of_a_future_that_somebody_cancelled_is_begun_again() -> None:
    async def story(supervisor: Supervisor, clock: AdjustableClock) -> None:
        patient = Patient()
        supervisor.start("watch", patient, Rule.RESTART)
        await until(lambda: patient.lives == 1)
        patient.told.cancel()
        await until(lambda: patient.lives == 2)

    tell(story)


def test_a_task_that_somebody_cancels_who_does_not_own_it_is_begun_again() -> None:
    async def story(supervisor: Supervisor, clock: AdjustableClock) -> None:
        patient = Patient()
        service = supervisor.start("watch", patient, Rule.RESTART)
        await until(lambda: patient.lives == 1)
        service.task.cancel()
        await until(lambda: patient.lives == 2)

        assert supervisor.troubles() == ("watch failed: Ended: it was cancelled by something that does not own it",)
        await service.close()
        assert service.is_over

    tell(story)


def test_a_task_that_somebody_cancels_while_it_rests_is_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(supervisor: Supervisor, clock: AdjustableClock) -> None:
        monkeypatch.setattr(supervision, "PAUSE_S", 5.0)
        patient = Patient()
        service = supervisor.start("watch", patient, Rule.RESTART)
        await until(lambda: patient.lives == 1)
        patient.told.set_exception(ValueError("oh"))
        await until(lambda: bool(supervisor.troubles()))
        service.task.cancel()
        await until(lambda: patient.lives == 2)

    tell(story)


def test_a_loop_that_is_closed_takes_along_what_nobody_closed() -> None:
    async def run() -> None:
        supervisor, patient = Supervisor(AdjustableClock()), Patient()
        for _ in range(3):
            supervisor.start("watch", patient, Rule.RESTART)
        await until(lambda: patient.lives == 3)

    asyncio.run(run())


def test_a_task_that_the_broker_cannot_do_without_ends_it_when_it_dies_too_often(caplog: pytest.LogCaptureFixture) -> None:
    ended: list[str] = []

    async def run() -> None:
        supervisor = Supervisor(AdjustableClock(), on_end=lambda: ended.append(str(supervisor.failure)))

        async def hopeless() -> None:
            raise ValueError("oh")

        service = supervisor.start("watch", hopeless, Rule.RESTART_OR_END)
        async with asyncio.timeout(10):
            await until(lambda: service.is_over)

        assert service.lives == DEATHS_MAX + 1

    asyncio.run(run())
    assert ended == ["watch failed: ValueError: oh"]
    (record,) = [record for record in caplog.records if record.levelno == logging.CRITICAL]
    assert record.exc_info is not None


def test_work_done_once_that_dies_is_logged_with_its_name(caplog: pytest.LogCaptureFixture) -> None:
    async def story(supervisor: Supervisor, clock: AdjustableClock) -> None:
        async def fails() -> None:
            raise ValueError("oh")

        supervisor.spawn("errand", fails())
        await until(lambda: bool(supervisor.troubles()))

        assert supervisor.troubles() == ("errand failed: ValueError: oh",)
        assert supervisor.failure is None

    tell(story)
    assert "errand failed" in caplog.text


def test_closing_a_scope_ends_what_is_in_it_the_inner_ones_first_and_lets_nothing_new_begin() -> None:
    ended: list[str] = []

    async def run() -> None:
        supervisor = Supervisor(AdjustableClock())
        inner = supervisor.scope("inner")

        def waits(name: str) -> Callable[[], Awaitable[None]]:
            async def wait() -> None:
                try:
                    await asyncio.get_running_loop().create_future()
                finally:
                    ended.append(name)

            return wait

        supervisor.start("outer", waits("outer"), Rule.RESTART)  # type: ignore[arg-type]
        inner.start("inner", waits("inner"), Rule.RESTART)  # type: ignore[arg-type]
        inner.spawn("errand", waits("errand")())  # type: ignore[arg-type]
        await asyncio.sleep(0)
        await supervisor.close()
        inner.spawn("late", waits("late")())  # type: ignore[arg-type]
        late = inner.start("late", waits("late"), Rule.RESTART)  # type: ignore[arg-type]
        await asyncio.sleep(0)

        assert ended == ["inner", "errand", "outer"]
        assert late.lives == 0
        assert supervisor.troubles() == ()

    asyncio.run(run())


def test_the_tree_can_be_read() -> None:
    async def story(supervisor: Supervisor, clock: AdjustableClock) -> None:
        supervisor.scope("cluster").start("controller", Patient(), Rule.RESTART)

        assert list(supervisor.tree()) == [
            "broker",
            "  cluster",
            "    controller: it restarts after a pause, for as long as it takes",
        ]

    tell(story)
