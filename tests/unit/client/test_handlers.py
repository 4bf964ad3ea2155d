"""What may be called back: nothing that returns before it has done anything."""

import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from headrace import Consumer, DeadLetters, InvalidArgument, Producer
from headrace.client.push.handlers import async_function, plain_function, refuse_unrun


async def coroutine(record: object) -> None:
    raise AssertionError("nobody runs this")


def generator(record: object) -> Iterator[None]:
    yield


async def async_generator(record: object) -> AsyncIterator[None]:
    yield


class AsyncCall:
    async def __call__(self, record: object) -> None: ...

    async def method(self, record: object) -> None: ...


class PlainCall:
    def __call__(self, record: object) -> None: ...


def runs_it(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(record: object) -> None: ...

    return wrapper


@pytest.mark.parametrize(
    "unrun",
    [
        coroutine,
        generator,
        async_generator,
        AsyncCall(),
        AsyncCall().method,
        functools.partial(coroutine),
        functools.partial(functools.partial(AsyncCall())),
        functools.partial(generator),
        5,
    ],
)
def test_what_would_return_before_it_has_done_anything_is_refused(unrun: Any) -> None:
    with pytest.raises(
        InvalidArgument, match=r"callback=.* is not accepted; accepted: a plain \(non-async, non-generator\) function"
    ):
        plain_function("callback", unrun, "a Record")


@pytest.mark.parametrize("fine", [print, PlainCall(), lambda record: None, functools.partial(print, "x"), runs_it(coroutine)])
def test_what_does_its_work_before_it_returns_is_accepted(fine: Any) -> None:
    plain_function("callback", fine, "a Record")


@pytest.mark.parametrize("fine", [coroutine, AsyncCall(), functools.partial(coroutine), functools.partial(AsyncCall())])
def test_an_async_function_is_known_also_behind_partial_and_call(fine: Any) -> None:
    async_function("callback", fine, "a Record")


@pytest.mark.parametrize("other", [print, generator, async_generator, runs_it(coroutine)])
def test_what_is_not_an_async_function_is_refused_where_one_is_wanted(other: Any) -> None:
    with pytest.raises(InvalidArgument, match="accepted: an async function"):
        async_function("callback", other, "a Record")


@pytest.mark.parametrize(
    "make", [lambda: coroutine(1), lambda: generator(1), lambda: async_generator(1), lambda: (each for each in [1])]
)
@pytest.mark.filterwarnings("error")  # a coroutine that nobody awaits would warn
def test_what_a_call_returned_and_nobody_runs_is_refused(make: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"callback returned a .*, which nobody runs"):
        refuse_unrun("callback", make())


@pytest.mark.parametrize("returned", [None, 1, "x", [1], {}, iter([1])])
def test_whatever_else_a_call_returned_is_fine(returned: object) -> None:
    refuse_unrun("callback", returned)


@pytest.mark.parametrize("argument", ["on_assigned", "on_revoked", "on_undecodable"])
def test_a_consumer_refuses_callbacks_that_nobody_would_await(argument: str) -> None:
    options: Any = {argument: coroutine}
    with pytest.raises(InvalidArgument, match=f"{argument}=.* is an async function, which nobody would run"):
        Consumer("orders", bootstrap="127.0.0.1:1", **options)


def test_formats_and_retry_rules_are_plain_functions_too() -> None:
    async def encode(value: Any) -> bytes:
        return b""

    with pytest.raises(InvalidArgument, match=r"values=.* is an async function"):
        Producer("127.0.0.1:1", values=(encode, bytes))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"retry=.* is an async function"):
        DeadLetters(retry=coroutine)  # type: ignore[arg-type]
