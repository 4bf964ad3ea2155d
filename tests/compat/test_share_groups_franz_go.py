"""franz-go's share consumer on a broker: `make compat-go` builds and runs it."""

import json
import subprocess
from pathlib import Path

import pytest

from headrace.model.errors import ErrorCode
from headrace.testing import Broker
from tests.support.raw import RawClient, ask_until_created, batch, produce
from tests.support.share_member import set_of_group

PROGRAM = Path(__file__).parents[2] / ".cache" / "compat-go" / "sharing"

pytestmark = pytest.mark.skipif(
    not PROGRAM.is_file(), reason="Go's clients are not built: `make compat-go` builds them where there is Go"
)


def work(bootstrap: str, count: int) -> list[str]:
    command = [str(PROGRAM), bootstrap, "workers", "jobs", str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    seen: list[str] = json.loads(done.stdout)
    return seen


def test_franz_go_releases_rejects_and_accepts_and_what_is_done_never_comes_again() -> None:
    settings = {"share.coordinator.state.topic.num.partitions": "2", "offsets.topic.num.partitions": "2"}
    with Broker(settings=settings) as broker, RawClient(broker.bootstrap) as client:
        ask_until_created(client, "jobs")
        assert set_of_group(client, "workers", share_auto_offset_reset="earliest") == ErrorCode.NONE
        client.call(produce("jobs", batch(b"a", b"bad", b"b")), 9)

        assert sorted(work(broker.bootstrap, 3)) == ["a x 1", "a x 2", "b x 1", "b x 2", "bad x 1"]
        client.call(produce("jobs", batch(b"c")), 9)
        assert work(broker.bootstrap, 1) == ["c x 1", "c x 2"]
