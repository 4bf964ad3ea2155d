"""What coordinators keep in their logs: keys and values of `__consumer_offsets` and `__transaction_state`."""
