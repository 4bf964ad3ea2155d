"""Play Kafka's tools (`secured_table.py`) against a closed broker, each command under somebody's name."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from tests.compat.java.secured_table import STEPS
from tests.compat.java.tools_story import play_steps
from tests.compat.java.tools_table import Case
from tests.compat.security.stage import CERTIFICATE, TOKEN, USERS, WAYS, Stage, Way

SCRAM = Way("SASL_SSL", "SCRAM-SHA-512")
LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    TOKEN: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
TOKENS_FROM_FILES = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"


def play(class_path: str, stage: Stage, files: Path, *, is_kafka: bool = False) -> int:
    """How many commands ended otherwise than they should."""
    token = files / "token"
    token.write_text(stage.issuer.token())
    addresses = dict(write_settings(stage, files, token))
    # Kafka's clients read tokens from nowhere but where they are told so at their start (CVE-2025-27817).
    allowed = [
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.{kind}={value}"
        for kind, value in (("urls", token.as_uri()), ("files", token))
    ]
    return play_steps(class_path, steps(addresses), files, *allowed, is_kafka=is_kafka)


def steps(addresses: Mapping[str, str]) -> Iterator[tuple[Case, str]]:
    for who, case in STEPS:
        yield replace(case, command=f"{case.command} --command-config {{files}}/{who}.properties"), addresses[who]


def write_settings(stage: Stage, files: Path, token: Path) -> Iterator[tuple[str, str]]:
    """A file of client settings for each who asks, and the address that it is for."""
    people = {
        "root": client_settings(stage, SCRAM, token, "root", USERS["root"]),
        "ann": client_settings(stage, SCRAM, token),
        "bob": client_settings(stage, SCRAM, token, "bob", "bob-secret"),
        "stranger": {"security.protocol": "SSL", **trust(stage)},
    }
    ways = {"root": SCRAM, "ann": SCRAM, "bob": SCRAM, "stranger": Way("SSL", CERTIFICATE)}
    for way in WAYS:
        people[f"ann-{way}"] = client_settings(stage, way, token)
        people[f"wrong-{way}"] = client_settings(stage, way, token, password="wrong")
        ways |= {f"ann-{way}": way, f"wrong-{way}": way}
    for who, settings in people.items():
        (files / f"{who}.properties").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        yield who, stage.bootstrap(ways[who])


def client_settings(stage: Stage, way: Way, token: Path, user: str = "ann", password: str = USERS["ann"]) -> dict[str, str]:
    settings = {
        "security.protocol": way.listener,
        **trust(stage),
        "request.timeout.ms": "20000",
        "default.api.timeout.ms": "30000",
    }
    if way.mechanism == CERTIFICATE:
        return settings | {"ssl.keystore.type": "PEM", "ssl.keystore.location": stage.certificate}
    settings |= {"sasl.mechanism": way.mechanism}
    if way.mechanism == TOKEN:
        return settings | {
            "sasl.jaas.config": f"{LOGIN_MODULES[TOKEN]} required;",
            "sasl.login.callback.handler.class": TOKENS_FROM_FILES,
            "sasl.oauthbearer.token.endpoint.url": token.as_uri(),
        }
    return settings | {"sasl.jaas.config": f'{LOGIN_MODULES[way.mechanism]} required username="{user}" password="{password}";'}


def trust(stage: Stage) -> dict[str, str]:
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": stage.authority}
