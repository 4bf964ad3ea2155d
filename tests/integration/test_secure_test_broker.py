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


def test_a_user_who_is_not_there_is_named_with_those_who_are() -> None:
    with Broker(users={"ann": "secret"}) as broker:
        for ask in (broker.client_config, broker.profile):
            with pytest.raises(ValueError, match="there is no user 'bob' at this broker; its users are: ann"):
                ask("bob")


def test_users_without_passwords_are_refused_with_an_example() -> None:
    with pytest.raises(TypeError, match=r"users=\['ann'\] is not names with passwords; give them as users=\{'ann': 'secret'\}"):
        Broker(users=["ann"])  # type: ignore[arg-type]
