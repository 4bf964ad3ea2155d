"""No message is declared for nobody: every request is answered by a broker or sent by code of ours."""

import re
from pathlib import Path

import pytest

from headrace.broker.routes import APIS
from headrace.wire.apis import ApiKey, declared_keys, messages_of

SOURCE = Path(__file__).parents[2] / "src" / "headrace"

# Delegation tokens: declared, and not answered yet.
NOT_YET_ANSWERED = {
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
}


def is_sent(request: str) -> bool:
    """Whether a module outside the messages makes such a request."""
    made = re.compile(rf"\b{request}\(")
    return any(made.search(path.read_text()) for path in SOURCE.rglob("*.py") if path.parent.name != "messages")


@pytest.mark.parametrize("key", sorted(set(declared_keys()) - NOT_YET_ANSWERED), ids=lambda key: key.name)
def test_a_request_that_is_declared_is_answered_or_sent(key: ApiKey) -> None:
    assert key in APIS or is_sent(messages_of(key).request.__name__), "delete its messages, or answer it"


def test_what_is_answered_leaves_the_list_of_what_is_not() -> None:
    assert [key.name for key in NOT_YET_ANSWERED if key in APIS] == []
