"""Who somebody is: names from certificates, and SASL, as machines of bytes."""
