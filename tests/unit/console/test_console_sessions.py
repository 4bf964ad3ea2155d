"""Who has signed in at the console, and for how long."""

import asyncio

from headrace.console.serving.sessions import Sessions
from headrace.console.settings import ConsoleSettings
from headrace.gateway.callers.credentials import Credentials

ANN = Credentials("1", "ann", {})


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_session_is_found_by_its_token_until_it_is_closed() -> None:
    sessions = Sessions(ConsoleSettings(), Clock())
    token, opened = sessions.open(ANN, "password")

    assert sessions.find(token) is opened
    assert sessions.find(token + "x") is None
    sessions.close(token)
    assert sessions.find(token) is None


def test_a_session_ends_when_nobody_uses_it_and_in_any_case_after_a_while() -> None:
    clock = Clock()
    sessions = Sessions(ConsoleSettings(session_idle_seconds=10, session_seconds=25), clock)
    idle, _ = sessions.open(ANN, "password")
    busy, _ = sessions.open(ANN, "password")
    found = []
    for clock.now in (8, 16, 24, 26):
        found.append(sessions.find(busy) is not None)

    assert found == [True, True, True, False]
    assert sessions.find(idle) is None


def test_who_only_watches_is_cut_off_when_the_session_is_over() -> None:
    clock = Clock()
    sessions = Sessions(ConsoleSettings(session_idle_seconds=10), clock)
    _, opened = sessions.open(ANN, "password")

    async def watch() -> None:
        with opened.watched():
            await asyncio.sleep(60)

    async def story() -> bool:
        watching = asyncio.create_task(watch())
        await asyncio.sleep(0)
        clock.now = 11
        looking = asyncio.create_task(sessions.end_those_over())
        await asyncio.wait([watching], timeout=5)
        looking.cancel()
        return watching.cancelled()

    assert asyncio.run(story())
    assert not opened.watching


def test_there_are_no_more_sessions_than_there_may_be() -> None:
    clock = Clock()
    sessions = Sessions(ConsoleSettings(sessions_max=2), clock)
    first, second = sessions.open(ANN, "password")[0], sessions.open(ANN, "password")[0]
    sessions.find(first)
    third = sessions.open(ANN, "password")[0]

    assert len(sessions) == 2
    assert sessions.find(second) is None, "it was idle for longest"
    assert sessions.find(first) is not None
    assert sessions.find(third) is not None
