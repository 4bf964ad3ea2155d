"""How fast is one broker, what does it cost, and how long does a record take?  `make bench` prints the answers as tables.

Broker and clients are separate processes.  Every run has a fresh broker with its data on the disk the repository is on.
"""
