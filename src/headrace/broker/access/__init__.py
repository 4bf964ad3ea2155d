"""Who may do what on this broker: the rules as they are known now, and what is decided before a request reaches its handler."""
