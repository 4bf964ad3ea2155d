"""What a pipeline lacks is said before Spark starts."""

import re
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace import Admin
from headrace.client.errors import HeadraceError
from headrace.spark.errors import OptionError
from headrace.spark.pipeline.file import PipelineFile, load_pipeline_file
from headrace.spark.pipeline.prerequisites import require_brokers
from tests.support.process import free_port

FILE = """
name = "copy"
transform = "copy.py"
[source]
subscribe = "prerequisite-orders"
[trigger]
batch = true
[sinks.out]
topic = "copies"
"""


def pipeline(folder: Path, bootstrap: str, overrides: Mapping[str, str] | None = None) -> PipelineFile:
    file = folder / "copy.toml"
    file.write_text(FILE)
    return load_pipeline_file(file, overrides or {}, bootstrap)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"source.subscribee": "x"}, "option 'subscribee' is not one of the headrace source's; did you mean 'subscribe'?"),
        ({"sinks.out.topci": "x"}, "option 'topci' is not one of the headrace sink's; did you mean 'topic'?"),
        ({"source.startingOffsets": "latest"}, "option 'startingOffsets' is 'latest': a batch read that starts there"),
        ({"source.kafka.fetch.minbytes": "1"}, "option 'kafka.fetch.minbytes' is no property of the client"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, bootstrap: str, wrong: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=f"^{re.escape(said)}"):
        require_brokers(pipeline(tmp_path, bootstrap, wrong))


def test_a_port_where_nobody_listens_is_named(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"

    with pytest.raises(HeadraceError, match=rf"no broker answers at {address} \(Connection refused\); gave up after 0.2 s"):
        require_brokers(pipeline(tmp_path, address, {"source.connectTimeoutMs": "400"}))


def test_a_port_that_stays_silent_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"

        with pytest.raises(HeadraceError, match=r"accepts connections and does not answer"):
            require_brokers(pipeline(tmp_path, address, {"source.connectTimeoutMs": "400"}))


def test_another_protocol_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HeadraceError, match=r"begins with http://, which no broker speaks; accepted: 'localhost:8080'"):
        require_brokers(pipeline(tmp_path, "http://localhost:8080"))


def test_the_sinks_brokers_are_looked_for_too(tmp_path: Path, bootstrap: str) -> None:
    address = f"127.0.0.1:{free_port()}"
    other = {
        "trigger.available_now": "true",
        "checkpoint": str(tmp_path / "checkpoint"),
        "sinks.out.kafka.bootstrap.servers": address,
        "sinks.out.connectTimeoutMs": "400",
    }

    with pytest.raises(HeadraceError, match=f"no broker answers at {address}"):
        require_brokers(pipeline(tmp_path, bootstrap, other))


def test_a_topic_that_a_batch_reads_has_to_be_there(tmp_path: Path, bootstrap: str) -> None:
    misspelt = pipeline(tmp_path, bootstrap, {"source.subscribe": "prerequisite-odrers"})
    with Admin(bootstrap) as admin:
        admin.create_topic("prerequisite-orders")

    require_brokers(pipeline(tmp_path, bootstrap))
    with pytest.raises(HeadraceError, match=r"topic prerequisite-odrers not found at .*; did you mean prerequisite-orders\?"):
        require_brokers(misspelt)
