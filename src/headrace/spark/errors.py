"""What can go wrong with the source, the sink and the pipelines, beside what the SDK's own errors say: no broker answered
(BrokerTimeout), a topic is not there (TopicNotFound), a broker refused (BrokerError).

Each error is one sentence that names the value and the way on.
"""

from headrace.client.errors import Fenced, HeadraceError, InvalidArgument


class HeadraceSparkError(HeadraceError):
    """The root of every error that the source, the sink and the pipelines raise on purpose."""


class OptionError(HeadraceSparkError, InvalidArgument):
    """An option's name or value is wrong; the caller can fix it."""


class DataLossError(HeadraceSparkError):
    """Records that the query was to read are gone, and `failOnDataLoss` is on."""


class SchemaError(HeadraceSparkError, ValueError):
    """The columns do not fit the source or the sink."""


class DeliveryError(HeadraceSparkError):
    """The broker did not take the records of a task."""


class FencedError(DeliveryError, Fenced):
    """Another attempt at the same task has taken over."""


class PipelineError(HeadraceSparkError):
    """A pipeline file is wrong, or its job cannot run."""
