"""Fetch: whole batches to consumers and followers, waiting for new ones where there are too few.

The handler is direct: records go from the log to the socket without being looked at.  A reply is made only when every earlier
one of the connection has left, so a client holds at most one large reply.  It is no larger than there is room for in the memory
that all connections share; where there is room for nothing, it waits, though no longer than the client does.  Followers have
fetch sessions; those of consumers are declined, as the protocol allows: session id 0 tells the client to name its partitions
each time.  What becomes of a fetch that has begun is in `broker/fetching`.
"""

from functools import partial

from headrace.broker.fetching.answering import send
from headrace.broker.fetching.fetch import Fetch, Surroundings
from headrace.broker.fetching.interest import Interest, NamedPartitions, SessionPartitions
from headrace.broker.fetching.lookup import MayRead
from headrace.broker.fetching.reading import ONLOOKER, ConsumerReading, Reading, ReplicaReading
from headrace.broker.fetching.states import ENDED
from headrace.broker.following.sessions import NEW_SESSION, NO_SESSION, ReplicaSessions
from headrace.broker.following.throttle import ReplicationThrottle
from headrace.broker.network.dispatch import RequestContext
from headrace.broker.network.pending_reply import PendingReply
from headrace.broker.partitions.nearest import NearbyReplicas
from headrace.broker.partitions.replicas import Replicas
from headrace.controller.image import CurrentImage
from headrace.declaring import dataclass
from headrace.host.disk import Buffer
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import ErrorCode, RequestError
from headrace.security.authorization.permissions import check_of
from headrace.wire.apis import ApiKey
from headrace.wire.codec import decode_at
from headrace.wire.messages.fetch import FetchRequest, FetchResponse, FetchTopic

TOPIC_IDS_FROM = 13
REPLICA_STATE_FROM = 15
NEARBY_FROM = 11
READ_COMMITTED = 1
# Less than what is held of any request under way besides its bytes.
COUNTED_BYTES_MIN = 1024
FOLLOW = check_of(ApiKey.FETCH, Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
READ_TOPIC = check_of(ApiKey.FETCH, Operation.READ, ResourceType.TOPIC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetches:
    """Begins fetches, each with the parts that it needs."""

    replicas: Replicas
    sessions: ReplicaSessions
    throttle: ReplicationThrottle
    nearby: NearbyReplicas
    image: CurrentImage
    surroundings: Surroundings

    def start(self, frame: Buffer, position: int, context: RequestContext, reply: PendingReply) -> None:
        """Begin a Fetch request."""
        request, _ = decode_at(FetchRequest, frame, context.api_version, position)
        try:
            fetch = self._fetch(request, context, reply)
        except RequestError as error:
            send(FetchResponse(error_code=error.code, responses=()), context, reply)
            return
        reply.when_closed = fetch.close
        reply.when_at_head(fetch.begin)
        if fetch.state not in ENDED and len(frame) > COUNTED_BYTES_MIN:
            # Most are answered at once; only one that waits is to be counted, and only one that names much.
            reply.keep(len(frame))

    def _fetch(self, request: FetchRequest, context: RequestContext, reply: PendingReply) -> Fetch:
        version = context.api_version
        replica_id = request.replica_state.replica_id if version >= REPLICA_STATE_FROM else request.replica_id
        is_guarded = context.guard.authorizer is not None
        if replica_id >= 0 and not context.guard.allows(context.subject, FOLLOW, asker=context):
            reading, interest = self._for_nobody(replica_id, request, version)
        elif replica_id >= 0:
            reading, interest = self._for_replica(replica_id, request, version)
        else:
            may_read = partial(self._may_read, context) if is_guarded else None
            reading, interest = self._for_consumer(request, version, may_read, consumes=replica_id != ONLOOKER)
        return Fetch(request, interest, reading, context, reply, self.surroundings)

    def _may_read(self, context: RequestContext, topic: FetchTopic) -> bool:
        name = topic.topic
        if context.api_version >= TOPIC_IDS_FROM:
            known = self.image().topics_by_id.get(topic.topic_id)
            if known is None:
                return True  # there is nothing to read, and an id tells nobody anything
            name = known.name
        return context.guard.allows(context.subject, READ_TOPIC, name, context)

    def _for_consumer(
        self, request: FetchRequest, version: int, may_read: MayRead | None, *, consumes: bool
    ) -> tuple[Reading, Interest]:
        if request.session_epoch not in (NO_SESSION, NEW_SESSION):
            raise RequestError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        nearby = self.nearby if version >= NEARBY_FROM else None
        committed_only = request.isolation_level == READ_COMMITTED
        reading = ConsumerReading(nearby, request.rack_id, committed_only=committed_only, consumes=consumes)
        by_id = version >= TOPIC_IDS_FROM
        return reading, NamedPartitions(self.replicas, request.topics, reading, by_id=by_id, may_read=may_read)

    def _for_nobody(self, replica_id: int, request: FetchRequest, version: int) -> tuple[Reading, Interest]:
        """Somebody who says they are a broker and may not: an error for all they name, and no word about it to anybody."""
        reading = ReplicaReading(replica_id, self.throttle)
        by_id = version >= TOPIC_IDS_FROM
        return reading, NamedPartitions(self.replicas, request.topics, reading, by_id=by_id, may_read=lambda topic: False)

    def _for_replica(self, replica_id: int, request: FetchRequest, version: int) -> tuple[Reading, Interest]:
        reading = ReplicaReading(replica_id, self.throttle)
        named = NamedPartitions(self.replicas, request.topics, reading, by_id=version >= TOPIC_IDS_FROM)
        interest: Interest = named
        if request.session_epoch != NO_SESSION and version >= REPLICA_STATE_FROM:
            interest = SessionPartitions(self.replicas, self.sessions.resume(replica_id, request))
        elif request.session_epoch not in (NO_SESSION, NEW_SESSION):
            raise RequestError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        reading.note_positions(named.look(), request.replica_state.replica_epoch)
        return reading, interest
