"""No message is declared for nobody: every request is answered by a broker or sent by code of ours."""

import re
from pathlib import Path

import pytest

from headrace.broker.routes import APIS
from headrace.wire.apis import ApiKey, declared_keys, messages_of

SOURCE = Path(__file__).parents[2] / "src" / "headrace"


def is_sent(request: str) -> bool:
    """Whether a module outside the messages makes such a request."""
    made = re.compile(rf"\b{request}\(")
    return any(made.search(path.read_text()) for path in SOURCE.rglob("*.py") if path.parent.name != "messages")


@pytest.mark.parametrize("key", sorted(declared_keys()), ids=lambda key: key.name)
def test_a_request_that_is_declared_is_answered_or_sent(key: ApiKey) -> None:
    assert key in APIS or is_sent(messages_of(key).request.__name__), "delete its messages, or answer it"
