"""The metrics of tiered storage move when what they count happens."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from headrace.testing import Broker
from tests.integration.test_deleted_records import delete
from tests.integration.test_tiered_storage import TIERED, create, fill, local_start, read_all, settings_for
from tests.support.metrics import AT_ANY_PORT, Watch
from tests.support.raw import RawClient
from tests.support.waiting import until


def test_tiered_storage(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("where the folder should be")
    settings = {**AT_ANY_PORT, **settings_for(tmp_path / "store")}
    with Broker(data=tmp_path / "data", settings=settings) as broker, RawClient(broker.bootstrap) as client:
        watch = Watch(broker)
        create(client, "old", local_retention_ms="1", **TIERED)
        fill(client, "old")
        until(lambda: watch.moved("headrace_remote_failures_total") > 0 and watch.now("headrace_remote_pending_bytes") > 0)
        assert watch.now("headrace_remote_pending_seconds") > 0
        (tmp_path / "store").unlink()

        until(lambda: watch.moved("headrace_remote_uploaded_segments_total") == 11)
        assert watch.moved("headrace_remote_uploaded_bytes_total") == watch.now("headrace_remote_size_bytes") > 0
        until(lambda: local_start(broker, "old") >= 11)
        assert read_all(client, "old") == list(range(12))
        assert watch.moved("headrace_remote_fetched_bytes_total") > 0
        assert watch.now("headrace_remote_cache_bytes") > 0
        assert delete(client, "old", 5).low_watermark == 5
        until(lambda: watch.moved("headrace_remote_deleted_objects_total") >= 10)
