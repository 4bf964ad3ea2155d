"""franz-go's client of a schema registry on the gateway: `make compat-go` builds and runs it."""

import json
import subprocess
from pathlib import Path

import pytest

from headrace.testing import Broker
from tests.support.gateway import GatewayThread

PROGRAM = Path(__file__).parents[2] / ".cache" / "compat-go" / "registry"

pytestmark = pytest.mark.skipif(
    not PROGRAM.is_file(), reason="Go's clients are not built: `make compat-go` builds them where there is Go"
)


def test_franz_go_registers_compares_looks_up_and_deletes() -> None:
    with Broker() as broker, GatewayThread(broker.bootstrap) as gateway:
        done = subprocess.run(
            [str(PROGRAM), gateway.url, "orders-value"], capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)

    assert told["ids"] == [True, True, True]
    assert told["compatible"] == [True, False]
    assert "incompatible" in told["refused"].lower()
    assert json.loads(told["second"])["fields"][1]["name"] == "note"
    assert (told["versions"], told["level"], told["deleted"]) == ([1, 2], "NONE", [[1, 2], [1, 2]])
    assert "not found" in told["gone"]
    assert told["decoded"] == 7
