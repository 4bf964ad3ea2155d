"""Threads for those who sign in: addresses take turns, and who goes away while waiting holds nobody up."""

import asyncio
import threading
from collections.abc import Callable

from headrace.broker.sign_in.fair_threads import FairThreads
from tests.support.waiting import until_async


def noting(done: list[str], name: str) -> Callable[[], None]:
    return lambda: done.append(name)


def test_an_address_with_many_makes_another_wait_for_one_of_them() -> None:
    async def story() -> list[str]:
        threads, gate, done = FairThreads(asyncio.get_running_loop(), 1), threading.Event(), list[str]()
        first = asyncio.ensure_future(threads.run("flood", gate.wait))
        await asyncio.sleep(0)
        others = [asyncio.ensure_future(threads.run("flood", noting(done, "flood"))) for _ in range(20)]
        await asyncio.sleep(0)
        others.append(asyncio.ensure_future(threads.run("other", noting(done, "other"))))
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(first, *others)
        threads.close()
        return done

    done = asyncio.run(story())

    assert done.index("other") <= 1
    assert len(done) == 21


def test_who_goes_away_while_waiting_holds_nobody_up() -> None:
    async def story() -> list[str]:
        threads, gate, done = FairThreads(asyncio.get_running_loop(), 1), threading.Event(), list[str]()
        first = asyncio.ensure_future(threads.run("a", gate.wait))
        await asyncio.sleep(0)
        gone = [asyncio.ensure_future(threads.run("a", noting(done, "gone"))) for _ in range(3)]
        last = asyncio.ensure_future(threads.run("a", noting(done, "last")))
        await asyncio.sleep(0)
        gone[0].cancel()
        gate.set()
        await first
        # The turn may have been handed to it already, before it goes.
        gone[1].cancel()
        gone[2].cancel()
        await last
        await until_async(lambda: all(each.done() for each in gone))
        assert await threads.run("b", lambda: 7) == 7
        threads.close()
        return done

    assert asyncio.run(story())[-1] == "last"
