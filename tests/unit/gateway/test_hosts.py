"""Names under which a gateway that lets anybody in may be called."""

import pytest

from headrace.gateway.serving.hosts import Hosts


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:8080",
        "[::1]:8080",
        "10.0.0.5",
        "localhost:8080",
        "gateway:8080",  # a name of a container network
        "me.localhost",
        "GW.Example.:8080",
        "public.example",
        "box.internal",
        "advertised.example:9999",
    ],
)
def test_names_that_nobody_can_point_elsewhere_and_those_that_were_named_pass(host: str) -> None:
    hosts = Hosts(["gw.example", "public.example:80", "http://advertised.example:8080", "127.0.0.1:0", None])

    assert hosts.allows(host)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example", "[x.y"]
)
def test_names_that_anybody_may_have_are_refused(host: str) -> None:
    assert not Hosts(["gw.example", "127.0.0.1:0"]).allows(host)
