"""What a broker that has just started still lacks of what it held: its replicas that others lead and that are not in sync again.

A rolling restart that goes on before they are would take the next broker from partitions that already miss one, and fall below
`min.insync.replicas`.  So `/ready` waits for this.  Once all have caught up it never looks again: who falls behind later is a
matter for `headrace cluster status`, and a broker under load must not be taken out of service for it.
"""

from collections.abc import Sequence
from uuid import UUID

from headrace.controller.changes import Change, PartitionChanged, TopicDeleted
from headrace.controller.entries import PartitionState
from headrace.controller.image import ClusterImage
from headrace.controller.insync import has_to_catch_up, waits_for_leader


class CatchingUp:
    """Begins when the broker is admitted; over when nothing it held then is behind."""

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self._behind: dict[tuple[UUID, int], PartitionState] = {}
        self.has_begun = False
        self.is_over = False

    def begin(self, image: ClusterImage) -> None:
        """All that the metadata places here, as it is now; what is placed here later is not what a restart took away."""
        self.has_begun = True
        self._behind = {
            (topic.topic_id, index): state
            for topic, index, state in image.partitions()
            if has_to_catch_up(state, self._broker_id)
        }
        self._look()

    def on_changes(self, changes: Sequence[Change]) -> None:
        if self.is_over or not self.has_begun:
            return
        for change in changes:
            match change:
                case PartitionChanged(_, topic_id, index, _, after) if (topic_id, index) in self._behind:
                    self._behind[topic_id, index] = after
                    if not has_to_catch_up(after, self._broker_id):
                        del self._behind[topic_id, index]
                case TopicDeleted(_, topic_id, _):
                    for key in [key for key in self._behind if key[0] == topic_id]:
                        del self._behind[key]
        self._look()

    def on_renewed(self, image: ClusterImage) -> None:
        """Changes may have been missed: look at everything that is waited for as it is now."""
        if self.is_over or not self.has_begun:
            return
        for topic_id, index in list(self._behind):
            topic = image.topics_by_id.get(topic_id)
            if topic is None or not has_to_catch_up(topic.partitions[index], self._broker_id):
                del self._behind[topic_id, index]
            else:
                self._behind[topic_id, index] = topic.partitions[index]
        self._look()

    @property
    def behind(self) -> int:
        """How many replicas are waited for."""
        return 0 if self.is_over else sum(not waits_for_leader(state) for state in self._behind.values())

    def _look(self) -> None:
        if not self.behind:
            self.is_over = True
            self._behind = {}
