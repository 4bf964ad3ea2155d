"""Where librdkafka's own log lines go: nowhere, unless someone listens.

What it reports is either mended by waiting or raised by us as an error in words; its lines on the driver's and executors'
standard error would only alarm.  `logging.getLogger("headrace.spark.librdkafka").propagate = True` shows them.
"""

import logging

client_logger = logging.getLogger("headrace.spark.librdkafka")
client_logger.addHandler(logging.NullHandler())
client_logger.propagate = False
