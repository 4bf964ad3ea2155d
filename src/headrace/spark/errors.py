"""What a person who uses the source or the sink is told.  Each error is one sentence that names the value and the way on."""

from headrace.client.errors import HeadraceError


class HeadraceSparkError(HeadraceError):
    """The root of every error that the source, the sink and the pipelines raise on purpose."""


class OptionError(HeadraceSparkError, ValueError):
    """An option's name or value is wrong; the caller can fix it."""


class BrokerUnreachableError(HeadraceSparkError):
    """No broker answered within the time allowed."""


class TopicMissingError(HeadraceSparkError):
    """A topic or partition that was named is not there."""


class DataLossError(HeadraceSparkError):
    """Records that the query was to read are gone, and `failOnDataLoss` is on."""


class SchemaError(HeadraceSparkError, ValueError):
    """The columns do not fit the source or the sink."""


class DeliveryError(HeadraceSparkError):
    """The broker did not take the records of a task."""


class FencedError(DeliveryError):
    """Another attempt at the same task has taken over."""


class PipelineError(HeadraceSparkError):
    """A pipeline file is wrong, or its job cannot run."""
