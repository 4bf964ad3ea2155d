"""What clients are asked for, and whether what they push is taken: the broker's side of KIP-714."""

from collections import defaultdict
from collections.abc import Mapping
from uuid import UUID

from headrace.broker.network.dispatch import RequestContext
from headrace.broker.telemetry.instances import Instance, Instances
from headrace.broker.telemetry.otlp import Point, points_in
from headrace.broker.telemetry.subscriptions import Subscription
from headrace.controller.image import CurrentImage
from headrace.host.clock import Clock
from headrace.host.entropy import Entropy
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.live_config import LiveConfig
from headrace.model.settings import SettingError
from headrace.records.compression import (
    CODEC_IDS,
    CODEC_NAMES,
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    CompressionError,
    TooLargeError,
    decompress,
)
from headrace.wire.messages.push_telemetry import PushTelemetryRequest
from headrace.wire.schema import ZERO_UUID

ACCEPTED_CODECS = tuple(CODEC_IDS[name] for name in (ZSTD, LZ4, GZIP, SNAPPY))  # the one we like most first
MAX_BYTES = "telemetry.max.bytes"
# Numbers that clients never have: nothing, and the one of the metadata's topic.
RESERVED = (ZERO_UUID, UUID(int=1))


class ClientTelemetry:
    """All clients of this broker that tell their metrics."""

    def __init__(self, image: CurrentImage, config: LiveConfig, clock: Clock, entropy: Entropy) -> None:
        self._image = image
        self._config = config
        self._clock = clock
        self._entropy = entropy
        self._read_from: Mapping[str, Mapping[str, str]] | None = None
        self._subscriptions: tuple[Subscription, ...] = ()
        self.instances = Instances()
        # Pushes by how they ended.
        self.pushes: defaultdict[ErrorCode, int] = defaultdict(int)

    @property
    def max_bytes(self) -> int:
        return int(self._config.now[MAX_BYTES])

    def now_ms(self) -> int:
        """By a clock that never jumps."""
        return int(self._clock.monotonic() * 1000)

    def asked_by(self, instance_id: UUID, context: RequestContext) -> Instance:
        """A client asks what is wanted of it.  Raises where it did so a moment ago."""
        now_ms = self.now_ms()
        self.instances.forget_silent(now_ms)
        instance = self._known(self._entropy.uuid() if instance_id == ZERO_UUID else instance_id, context, now_ms)
        if not instance.may_ask(now_ms):
            raise RequestError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The interval is not over.")
        instance.asked_at_ms, instance.last_error = now_ms, ErrorCode.NONE
        return instance

    def pushed_by(self, request: PushTelemetryRequest, context: RequestContext) -> Instance:
        """A client tells something.  Raises where it may not, before anything is unpacked."""
        if request.client_instance_id in RESERVED:
            raise RequestError(ErrorCode.INVALID_REQUEST, "The client has no number.")
        now_ms = self.now_ms()
        instance = self._known(request.client_instance_id, context, now_ms)
        was_ending, instance.is_ending = instance.is_ending, request.terminating
        instance.last_error = self._why_not(request, instance, was_ending, now_ms)
        if instance.last_error is not ErrorCode.NONE:
            raise RequestError(instance.last_error)
        return instance

    def _why_not(self, request: PushTelemetryRequest, instance: Instance, was_ending: bool, now_ms: int) -> ErrorCode:
        if was_ending:
            return ErrorCode.INVALID_REQUEST
        if instance.may_push(now_ms):
            instance.pushed_at_ms = now_ms
        elif not request.terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if request.subscription_id != instance.subscription_id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if not 0 <= request.compression_type < len(CODEC_NAMES):
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return ErrorCode.TELEMETRY_TOO_LARGE if len(request.metrics) > self.max_bytes else ErrorCode.NONE

    def _known(self, instance_id: UUID, context: RequestContext, now_ms: int) -> Instance:
        """Who it is.  Once the subscriptions have changed, everybody is asked anew, and may ask at once."""
        subscriptions = self._current_subscriptions()
        found = self.instances.find(instance_id, now_ms)
        return found or self.instances.add(instance_id, _description(instance_id, context), subscriptions, now_ms)

    def _current_subscriptions(self) -> tuple[Subscription, ...]:
        texts = self._image().client_metrics
        if texts is not self._read_from:
            self._read_from = texts
            self._subscriptions = tuple(filter(None, map(_readable, texts.values())))
            self._ask_anew()
        return self._subscriptions

    def _ask_anew(self) -> None:
        for instance in self.instances:
            series = instance.series
            again = self.instances.add(instance.instance_id, instance.client, self._subscriptions, instance.heard_at_ms)
            again.series, again.is_ending = series, instance.is_ending
            self.instances.series_count += len(series)


def _readable(texts: Mapping[str, str]) -> Subscription | None:
    try:
        return Subscription.of(texts)
    except SettingError:  # written by a broker of another version
        return None


def _description(instance_id: UUID, context: RequestContext) -> Mapping[str, str]:
    name, _, version = context.connection.software.rpartition(" ")
    return {
        "client_instance_id": str(instance_id),
        "client_id": context.client_id or "",
        "client_software_name": name,
        "client_software_version": version,
        "client_source_address": context.client_host,
        "client_source_port": str(context.connection.client_port),
    }


def unpacked(codec: int, data: bytes, limit: int) -> list[Point]:
    """What a push holds: work for a thread.  Raises RequestError where it is too large, or not what it should be."""
    try:
        return points_in(decompress(CODEC_NAMES[codec], data, limit))
    except TooLargeError as error:
        raise RequestError(ErrorCode.TELEMETRY_TOO_LARGE, str(error)) from None
    except (CompressionError, ValueError) as error:
        raise RequestError(ErrorCode.INVALID_RECORD, str(error)) from None
