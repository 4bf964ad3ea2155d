"""Settings: defaults, then the file, then the environment, then flags."""

from pathlib import Path

import pytest

from headrace.cli.failure import Failure
from headrace.cli.node.settings import collect, read_environment, read_file, unknown_variables


def test_the_later_source_wins(tmp_path: Path) -> None:
    file = tmp_path / "headrace.toml"
    file.write_text('"num.partitions" = 2\n"log.dirs" = "from-file"\nlisteners = "127.0.0.1:1"\n')
    environment = {"HEADRACE_NUM_PARTITIONS": "3", "HEADRACE_LOG_DIRS": "from-environment"}

    given = collect(file, environment, {"num.partitions": "4"})

    assert given == {"num.partitions": "4", "log.dirs": "from-environment", "listeners": "127.0.0.1:1"}


def test_a_name_in_the_file_may_be_whole_or_in_tables(tmp_path: Path) -> None:
    file = tmp_path / "headrace.toml"
    file.write_text('"num.partitions" = 3\n[log]\ndirs = "here"\nretention.hours = 24\n[headrace]\nflush = "os"\nmemory = true\n')

    assert read_file(file) == {
        "num.partitions": "3",
        "log.dirs": "here",
        "log.retention.hours": "24",
        "headrace.flush": "os",
        "headrace.memory": "true",
    }


def test_a_list_in_the_file_is_the_text_that_kafka_writes(tmp_path: Path) -> None:
    file = tmp_path / "headrace.toml"
    file.write_text('"log.cleanup.policy" = ["compact", "delete"]\n')

    assert read_file(file) == {"log.cleanup.policy": "compact,delete"}


def test_names_of_our_own_do_not_repeat_the_prefix_in_the_environment() -> None:
    given = {"headrace.flush": "os", "node.id": "7"}

    assert read_environment({"HEADRACE_FLUSH": "os", "HEADRACE_NODE_ID": "7", "PATH": "x"}) == given
    assert read_environment({"HEADRACE_HEADRACE_FLUSH": "os", "HEADRACE_NODE_ID": "7"}) == given


def test_a_secret_is_not_taken_from_the_command_line() -> None:
    with pytest.raises(Failure, match=r"ssl.key.password is a secret.*--config, or as HEADRACE_SSL_KEY_PASSWORD\.") as refused:
        collect(None, {}, {"ssl.key.password": "hidden"})
    assert "hidden" not in str(refused.value)
    with pytest.raises(Failure, match=r"give it in a file with --config\."):
        collect(None, {}, {"listener.name.outside.ssl.key.password": "hidden"})

    assert collect(None, {"HEADRACE_SSL_KEY_PASSWORD": "hidden"}, {}) == {"ssl.key.password": "hidden"}


def test_a_file_with_a_secret_is_refused_where_others_may_read_it(tmp_path: Path) -> None:
    file = tmp_path / "headrace.toml"
    file.write_text('"ssl.key.password" = "hidden"\n')
    file.chmod(0o644)

    with pytest.raises(Failure, match=f"--config {file} holds a secret, and others may read it; run: chmod 600 {file}"):
        collect(file, {}, {})
    file.chmod(0o600)
    assert collect(file, {}, {}) == {"ssl.key.password": "hidden"}


def test_a_misspelt_variable_is_remarked_upon() -> None:
    (remark,) = unknown_variables({"HEADRACE_NUM_PARTITION": "3", "HEADRACE_BOOTSTRAP": "x", "HOME": "y"})

    assert remark == "HEADRACE_NUM_PARTITION is not a known setting; ignored. Did you mean HEADRACE_NUM_PARTITIONS?"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('"num.partitons" = 3', "there is no setting num.partitons; did you mean num.partitions?"),
        ('"num.partitions" = 0', "num.partitions=0 is below its minimum, 1"),
        ('"num.partitions" = "many"', "num.partitions='many' is not a whole number"),
        ("[headrace]\nflush = 'never'", "headrace.flush=never is not one of: ack, interval, os"),
    ],
)
def test_a_wrong_setting_is_named_with_the_file_it_stands_in(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "headrace.toml"
    file.write_text(text)

    with pytest.raises(Failure) as raised:
        collect(file, {}, {})

    assert str(raised.value) == f"{said} (in {file})"


def test_a_file_that_is_missing_or_no_toml_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("= 3")

    with pytest.raises(Failure, match=r"absent\.toml cannot be read: No such file"):
        read_file(tmp_path / "absent.toml")
    with pytest.raises(Failure, match=r"bad\.toml is not TOML"):
        read_file(tmp_path / "bad.toml")
