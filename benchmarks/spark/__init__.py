"""How fast the Spark source and sink are, beside Spark's own Kafka connector and beside Parquet files."""
