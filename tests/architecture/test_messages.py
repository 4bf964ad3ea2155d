"""No message is declared for nobody: every request is answered by a broker or sent by code of ours."""

import re
from pathlib import Path

import pytest

from headrace.broker.routes import APIS
from headrace.wire.apis import ApiKey, declared_keys, messages_of

SOURCE = Path(__file__).parents[2] / "src" / "headrace"

# Share groups: declared, and not answered yet.
NOT_YET_ANSWERED = {
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_DESCRIBE,
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS,
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
