"""Profiles: by name, by file, beside arguments and the environment; what is wrong in them is named."""

from pathlib import Path

import pytest

from headrace import InvalidArgument, Producer
from headrace.client.security.connecting import way_to
from headrace.client.security.profiles import all_profiles, load_profile, profiles_file

PROFILES = """
default = "dev"

[profiles.dev]
bootstrap = "127.0.0.1:1"

[profiles.prod]
bootstrap = ["one:9093", "two:9093"]
username = "ann"
password_file = "prod.password"
ca_file = "prod-ca.pem"
librdkafka = { "socket.keepalive.enable" = true }
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("HEADRACE_PROFILE", raising=False)
    monkeypatch.delenv("HEADRACE_BOOTSTRAP", raising=False)
    folder = tmp_path / "headrace"
    folder.mkdir()
    write(folder / "prod.password", "secret\n")
    (folder / "prod-ca.pem").write_text("")
    return write(folder / "config.toml", PROFILES)


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_it_is_where_the_xdg_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/somewhere")
    assert profiles_file() == Path("/somewhere/headrace/config.toml")
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", "/home/ann")
    assert profiles_file() == Path("/home/ann/.config/headrace/config.toml")


def test_a_profile_is_an_address_and_a_way_in(file: Path) -> None:
    way = way_to(None, {"profile": "prod"})

    assert way.bootstrap == "one:9093,two:9093"
    assert way.properties == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "ann",
        "sasl.password": "secret",
        "ssl.ca.location": str(file.parent / "prod-ca.pem"),
        "socket.keepalive.enable": True,
    }


def test_what_is_given_counts_more_than_a_profile(file: Path) -> None:
    way = way_to("three:9093", {"profile": "prod", "password": "other"}, {"socket.keepalive.enable": False})
    assert (way.bootstrap, way.properties["sasl.password"]) == ("three:9093", "other")
    assert (way.properties["sasl.username"], way.properties["socket.keepalive.enable"]) == ("ann", False)

    with_token = way_to(None, {"profile": "prod", "token": "t"}).properties
    assert with_token["sasl.mechanism"] == "OAUTHBEARER"
    assert "sasl.username" not in with_token


def test_which_profile_holds(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert way_to(None, {}).bootstrap == "127.0.0.1:9092"
    assert way_to(None, {}, takes_default=True).bootstrap == "127.0.0.1:1"
    monkeypatch.setenv("HEADRACE_PROFILE", "prod")
    assert way_to(None, {}).bootstrap == "one:9093,two:9093"
    assert way_to("local:1", {}).properties == {}, "a password is not for a broker that somebody names without a profile"
    monkeypatch.setenv("HEADRACE_BOOTSTRAP", "three:9093")
    assert way_to(None, {}).bootstrap == "three:9093"
    assert way_to(None, {}).properties["sasl.username"] == "ann"
    assert way_to(None, {"profile": "prod"}).bootstrap == "one:9093,two:9093"
    monkeypatch.delenv("HEADRACE_PROFILE")
    assert way_to(None, {}, takes_default=True) == ("three:9093", {})


def test_a_file_can_be_named_instead(file: Path, tmp_path: Path) -> None:
    alone = write(tmp_path / "alone.toml", '[profiles.x]\nbootstrap = "x:1"\n')
    assert load_profile(str(alone)).bootstrap == "x:1"
    assert load_profile(str(file)).name == "dev"
    write(alone, "[profiles.x]\n[profiles.y]\n")
    with pytest.raises(InvalidArgument, match=r"alone\.toml has 2 profiles; name the one to use in it"):
        load_profile(str(alone))


def test_a_file_with_a_secret_is_refused_where_others_may_read_it(file: Path) -> None:
    file.chmod(0o644)
    load_profile("prod")  # the secret is in another file
    write(file, PROFILES + 'password = "secret"\n'.replace("password", "token"), 0o644)
    with pytest.raises(InvalidArgument, match=f"{file} holds a secret, and others may read it; run: chmod 600 {file}"):
        load_profile("dev")
    write(file, '[profiles.p.librdkafka]\n"sasl.password" = "secret"\n', 0o644)
    with pytest.raises(InvalidArgument, match="chmod 600"):
        load_profile("p")


@pytest.mark.parametrize(
    "name",
    [
        "sasl.password",
        "ssl.key.pem",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.private.key.pem",
    ],
)
def test_whatever_librdkafka_calls_a_secret_is_one(file: Path, name: str) -> None:
    write(file, f'[profiles.p.librdkafka]\n"{name}" = "secret"\n', 0o644)

    with pytest.raises(InvalidArgument, match="chmod 600"):
        load_profile("p")


def test_a_property_that_is_no_secret_is_not_taken_for_one(file: Path) -> None:
    write(file, '[profiles.p.librdkafka]\n"ssl.key.location" = "key.pem"\n"sasl.username" = "ann"\n', 0o644)

    assert load_profile("p").librdkafka["sasl.username"] == "ann"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            'bootstrap = "a:1"\n',
            r"config\.toml: 'bootstrap' belongs into the table of a profile; write a line such as \[profiles\.dev\]",
        ),
        ("[profile.prod]\n", r"config\.toml: there is no key 'profile'; did you mean 'profiles'\?"),
        ('[profiles.prod]\npasword = "x"\n', r"profile prod: there is no key 'pasword'; did you mean 'password'\?"),
        ("[profiles.prod]\nusername = 7\n", "profile prod: username wants a text in quotes"),
        ('default = "prd"\n[profiles.prod]\n', r"default = 'prd', which is no profile in it; did you mean 'prod'\?"),
        ("[profiles.prd]\n", r"there is no profile 'prod' in .*; did you mean 'prd'\?"),
        ("[profiles.prod\n", r"config\.toml is not TOML: .*line 1"),
        ("[profiles.prod]\nbootstrap = 1\n", "profile prod: bootstrap wants 'host:port', or a list of them"),
    ],
)
def test_what_is_wrong_in_it_is_named(file: Path, text: str, said: str) -> None:
    write(file, text)
    with pytest.raises(InvalidArgument, match=said):
        load_profile("prod")


def test_what_is_wrong_in_one_profile_keeps_nobody_from_another(file: Path) -> None:
    write(file, PROFILES + '[profiles.broken]\npasword = "x"\n')

    assert load_profile("dev").bootstrap == "127.0.0.1:1"
    assert str(all_profiles(file)[0]["broken"]).endswith("there is no key 'pasword'; did you mean 'password'?")
    with pytest.raises(InvalidArgument, match="profile broken: there is no key 'pasword'"):
        load_profile("broken")


def test_a_secret_in_a_broken_profile_is_still_one(file: Path) -> None:
    write(file, PROFILES + '[profiles.broken]\nuser = "x"\npassword = "y"\n', 0o644)
    with pytest.raises(InvalidArgument, match="chmod 600"):
        load_profile("dev")


def test_a_file_that_is_not_there_is_named(file: Path) -> None:
    file.unlink()
    with pytest.raises(InvalidArgument, match=f"there is no profile 'prod': {file} does not exist"):
        Producer(profile="prod")


def test_no_secret_is_in_what_is_printed_of_profiles(file: Path) -> None:
    write(file, PROFILES.replace('password_file = "prod.password"', 'password = "planted"'))
    assert "planted" not in repr(all_profiles(file))
