"""`testing.Broker` with TLS and users, as anybody's tests would use it."""

import pytest
from confluent_kafka import Producer

from headrace import Admin, SecurityFailed
from headrace.testing import Broker


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("users", [{}, {"ann": "secret", "bob": "hidden"}])
def test_clients_get_in_with_what_the_broker_hands_them(tls: bool, users: dict[str, str]) -> None:
    with Broker(tls=tls, users=users) as broker:
        for user in users or [None]:
            producer = Producer(broker.client_config(user))
            producer.produce("t", b"one")
            assert producer.flush(20) == 0
            expected = f"User:{user or 'ANONYMOUS'}"
            with Admin(profile=broker.profile(user)) as admin:
                assert admin.topic_names() == ["t"]
            assert expected in broker.run(lambda real: {str(each.principal) for each in real.server.connections})


@pytest.mark.parametrize("tls", [False, True])
def test_who_forgets_to_sign_in_is_told_so_at_once(tls: bool) -> None:
    with Broker(tls=tls, users={"ann": "secret"}) as broker:
        authority = broker.client_config("ann")["ssl.ca.location"] if tls else None
        with (
            Admin(broker.bootstrap, ca_file=authority) as admin,
            pytest.raises(SecurityFailed, match="wants its clients to sign in"),
        ):
            admin.topic_names()
