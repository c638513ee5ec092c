"""Ports for the processes that a test starts."""

import socket


def free_port():
    """A port that is free now, as is the one after it."""
    while True:
        with socket.socket() as one, socket.socket() as next_one:
            one.bind(("", 0))
            port = one.getsockname()[1]
            try:
                next_one.bind(("", port + 1))
            except (OSError, OverflowError):
                continue
            return port
