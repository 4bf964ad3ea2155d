"""Who may do what, and what is kept to know people by: in the cluster's metadata."""
