"""Subscriptions to clients' own metrics, changed on behalf of operators: checked here, kept with the cluster's metadata."""

from collections.abc import Callable, Mapping

from headrace.broker.telemetry.subscriptions import CLIENT_METRICS_SETTINGS, Subscription
from headrace.controller.named_configs import alter_client_metrics
from headrace.metadata.cluster import ClusterMetadata
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.settings import SettingError

Texts = Mapping[str, str]


async def alter_subscription(
    cluster: ClusterMetadata, name: str, change: Callable[[Texts], Texts], *, validate_only: bool
) -> None:
    """Change a subscription, all or nothing.  One without any settings is gone."""
    if not name:
        raise RequestError(ErrorCode.INVALID_REQUEST, "A subscription has to have a name.")

    def checked(before: Texts) -> Texts:
        after = change(before)
        _check(after)
        return after

    checked(cluster.image.client_metrics.get(name, {}))
    if not validate_only:
        await cluster.submit(lambda image: [alter_client_metrics(image, name, checked(image.client_metrics.get(name, {})))])


def _check(texts: Texts) -> None:
    """The errors are Kafka's: a wrong pattern is another one than a wrong interval."""
    try:
        CLIENT_METRICS_SETTINGS.parse(texts)
    except SettingError as error:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"{error}.") from None
    try:
        Subscription.of(texts)
    except SettingError as error:
        raise RequestError(ErrorCode.INVALID_CONFIG, f"{error}.") from None
