"""Ports for the servers of tests, each given to one test alone.

A port from the kernel (``bind`` to 0) is not enough. Before the server listens, and while it restarts, the kernel
may give it to the next process that asks, or to a client as its own end of a connection. These ports lie below
those of clients, and are claimed until the process of the tests ends.
"""

from __future__ import annotations

import errno
import random
import socket

LOWEST, CLIENTS = 10_000, 32_768
"""The kernel gives clients ports from 32768 on."""
_chance = random.SystemRandom()  # the tests give the other generator seeds


def unused_port() -> int:
    """Return a port on which nobody listens, and which no other test is given."""
    return _first_of(1)


def unused_pair() -> int:
    """Return the first of two such ports, one after the other."""
    return _first_of(2)


def _first_of(count: int) -> int:
    begin = _chance.randrange(LOWEST, CLIENTS)
    for port in (*range(begin, CLIENTS - count), *range(LOWEST, begin)):
        if all(_is_free(number) and claim(number) for number in range(port, port + count)):
            return port
    raise RuntimeError("no port is free")


def _is_free(port: int) -> bool:
    """Whether a server may listen on the port, on any address."""
    with socket.socket() as asked:
        try:
            asked.bind(("", port))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            return False
    return True


def claim(port: int) -> bool:
    """Return whether the port is this process's now: one process of a machine can have a socket of a name."""
    name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        name.bind(f"\0wsgi-pipeline-tests-port-{port}")
    except OSError:
        name.close()
        return False
    name.detach()  # it stays open until the process ends
    return True
