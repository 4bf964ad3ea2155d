"""Clients that are open when the process ends."""

import logging
from collections.abc import Callable, Iterator

import pytest

from headrace.client import lifetimes


class Client:
    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.ended = False

    def at_exit(self) -> None:
        self.ended = True
        if self.error is not None:
            raise self.error

    def after_fork(self) -> None:
        self.at_exit()


@pytest.mark.parametrize("end", [lifetimes._at_exit, lifetimes._after_fork])
def test_a_client_that_fails_at_the_end_keeps_no_other_from_its_own(
    end: Callable[[], None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clients = [Client(OSError("odd")), Client(), Client(OSError("odd")), Client()]
    monkeypatch.setattr(lifetimes, "_open", set(clients))

    with caplog.at_level(logging.ERROR):
        end()

    assert all(client.ended for client in clients)
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["odd", "odd"]


def test_a_client_opened_at_the_last_moment_breaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread's `watch` changes what is gone through."""
    late = Client()

    class Growing(set[Client]):
        def __iter__(self) -> Iterator[Client]:
            grows = late not in self
            for each in super().__iter__():
                if grows:
                    self.add(late)
                yield each

    early = Client()
    monkeypatch.setattr(lifetimes, "_open", Growing({early, Client()}))

    lifetimes._at_exit()

    assert early.ended
    assert late.ended
