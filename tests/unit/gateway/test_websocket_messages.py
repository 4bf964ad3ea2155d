"""What comes by WebSocket, read."""

import pytest

from headrace.gateway.live.websocket import _message
from headrace.gateway.serving.problems import Problem


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"type": 7}', '{"type": ["subscribe"]}', '{"type": {}}', '{"type": "other"}'])
def test_a_message_of_no_known_type_is_a_mistake_of_the_caller(text: str) -> None:
    with pytest.raises(Problem):
        _message(text)
