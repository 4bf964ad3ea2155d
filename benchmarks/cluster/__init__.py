"""What three brokers do: replicate, fail over, move partitions, and keep the metadata of many."""
