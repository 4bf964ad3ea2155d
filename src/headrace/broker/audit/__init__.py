"""What was done on this broker, by whom and how it ended: recorded before it is answered."""
