"""The one way in which bytes from a peer can be wrong."""


class WireError(Exception):
    """A frame, a header or a body that is not what the protocol says.  The connection that sent it is closed."""
