"""Where the SDK writes what nobody asked for: the loggers `headrace.client` and, for librdkafka's own lines,
`headrace.client.librdkafka`."""

import logging

log = logging.getLogger("headrace.client")
librdkafka_log = logging.getLogger("headrace.client.librdkafka")
# What librdkafka reports reaches the caller as an exception; its lines are for those who configure logging.
librdkafka_log.addHandler(logging.NullHandler())
