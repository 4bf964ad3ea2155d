"""What a call into Java leaves behind when a test's time is up in the middle of it.

Such a test is cut short by an exception that is no `Exception`, and Py4J then keeps the connection although the answer is still
to come: every later call in that thread would be given the answer of the one before it.
"""

from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession


def forget_calls_under_way() -> None:
    """Let this thread's next call into Java go over a connection of its own."""
    gateway: Any = SparkContext._gateway
    if gateway is None:
        return
    gateway._gateway_client.thread_connection.connection = None
    # That one is a new thread in Java, which finds data sources of Python only with an active session.
    session: Any = SparkSession._instantiatedSession
    if session is not None:
        SparkSession._get_j_spark_session_class(session._jvm).setActiveSession(session._jsparkSession)
