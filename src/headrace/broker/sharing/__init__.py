"""Share groups at work on the partitions that this broker leads: who has which records, what is read, what is written."""
