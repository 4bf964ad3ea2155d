"""What other people's clients leave behind fails no test of somebody else's."""

import re

from tests.support.source_tree import ROOT

MADE = re.compile(r"\b(KafkaProducer|KafkaConsumer|KafkaAdminClient|AIOKafka\w+)\(")


def test_clients_that_are_not_ours_are_made_where_their_garbage_is_collected() -> None:
    makers = [path for path in (ROOT / "tests").rglob("*.py") if MADE.search(path.read_text())]
    elsewhere = [path for path in makers if ROOT / "tests" / "compat" not in path.parents]

    assert len(makers) > len(elsewhere)
    assert [str(path) for path in elsewhere if 'usefixtures("foreign_garbage")' not in path.read_text()] == []
