"""Users without passwords, for tests of what they may do: who asks is told by the client id."""

import pytest

from headrace.broker.network.dispatch import RequestContext
from headrace.model.access.principals import Subject, user


def take_client_ids_for_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers in this process believe them."""

    def subject(context: RequestContext) -> Subject:
        return Subject(user(context.client_id or "nobody"), address=context.client_host)

    monkeypatch.setattr(RequestContext, "subject", property(subject))
