"""Ports of processes that a test starts by number, and starts again."""

import contextlib
import random
import socket

#: Below what the system gives to connections and to servers that ask for any port: a port of a process
#: that is started again is taken by nobody meanwhile.
_KEPT_PORTS = range(15_000, 30_000)


def free_port() -> int:
    """A port that is free now, and that the system gives to nobody else."""
    while True:
        port = random.choice(_KEPT_PORTS)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


if __name__ == "__main__":  # for tools/foreground.sh
    print(free_port())
