"""What is told of a broker, one module for each thing that it is about: the families, and where their numbers come from."""
