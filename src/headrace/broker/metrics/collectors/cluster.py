"""The cluster: brokers, the controller's view of its partitions, the lease, and the store of the metadata."""

from headrace.broker.cluster.controller import Controller
from headrace.broker.metrics.collecting import Collecting, Page
from headrace.broker.metrics.figures import ClusterFigures
from headrace.controller.image import CurrentImage
from headrace.metadata.membership import BrokerMembership
from headrace.metrics.families import counter, gauge, histogram
from headrace.metrics.scrape import Scrape
from headrace.model.identity import NO_BROKER

BROKERS = gauge("headrace_cluster_brokers", "Brokers that are alive, as this one knows it.")
TOPICS = gauge("headrace_cluster_topics", "Topics of the cluster.")
DEGRADED = gauge("headrace_cluster_brokers_degraded", "Brokers that are alive and have something to complain about.")
HAS_CONTROLLER = gauge(
    "headrace_cluster_has_controller", "1 where this broker knows who the controller is, 0 where there is none."
)
IS_CONTROLLER = gauge("headrace_controller", "1 where this broker is the controller, else 0.")
LEADERLESS = gauge(
    "headrace_controller_partitions_leaderless", "Partitions of the cluster without a leader; told by the controller."
)
MOVING = gauge(
    "headrace_controller_partitions_moving", "Partitions of the cluster whose replicas are being moved; told by the controller."
)
UNCLEAN = counter(
    "headrace_cluster_unclean_elections_total",
    "Unclean elections in the cluster's whole life, each of which may have lost records.",
)
LEASE = gauge("headrace_lease_left_seconds", "For how long the others take this broker for alive if it is not heard of again.")
ROUND_TRIPS = histogram(
    "headrace_metadata_round_trip_seconds",
    "How long the store of the metadata (etcd, or the local file) took to answer.",
    "operation",
)
FAILURES = counter(
    "headrace_metadata_failures_total", "Requests that the store of the metadata did not answer, or refused.", "operation"
)
REVISION = gauge("headrace_metadata_revision", "The revision of the metadata that this broker has applied.")


class ClusterCollector:
    """What this broker knows of all."""

    def __init__(
        self, figures: ClusterFigures, image: CurrentImage, membership: BrokerMembership, controller: Controller
    ) -> None:
        self._figures = figures
        self._image = image
        self._membership = membership
        self._controller = controller

    def collect(self, scrape: Scrape, page: Page) -> Collecting:
        if page is not Page.SUMMARY:
            return
        image, figures = self._image(), self._figures
        scrape.add(BROKERS, len(image.brokers))
        scrape.add(DEGRADED, sum(bool(broker.degraded) for broker in image.brokers.values()))
        scrape.add(TOPICS, len(image.topics))
        scrape.add(HAS_CONTROLLER, int(image.controller_id != NO_BROKER))
        scrape.add(IS_CONTROLLER, int(self._controller.is_active))
        scrape.add(UNCLEAN, image.unclean_elections.count)
        scrape.add(LEASE, self._membership.lease_left_s)
        scrape.add(REVISION, image.revision)
        trips, failures = scrape.rows(ROUND_TRIPS), scrape.rows(FAILURES)
        for operation, found in figures.round_trips.items():
            trips.append(((operation,), (found.taken(),)))
            failures.append(((operation,), (figures.round_trip_failures.get(operation, 0),)))
        yield from self._as_controller(scrape)

    def _as_controller(self, scrape: Scrape) -> Collecting:
        scrape.rows(LEADERLESS), scrape.rows(MOVING)
        if not self._controller.is_active:
            return
        leaderless = moving = 0
        for topic in list(self._image().topics.values()):
            for state in topic.partitions:
                leaderless += state.leader == NO_BROKER
                moving += bool(state.adding or state.removing)
                yield
        scrape.add(LEADERLESS, leaderless)
        scrape.add(MOVING, moving)
