"""The data pipeline on Spark: a source, a sink and ready pipelines, over the wire protocol alone.

Nothing here imports the broker: the same code reads and writes Apache Kafka.
"""
