"""Plain counters, histograms, and their two text formats: what metrics are made of, whoever keeps them."""
