"""Eight clients at once take numbers from the counter of a real server: each number once, none missing."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection

import pytest

from .serving import Server

CLIENTS, EACH = 8, 150


@pytest.mark.once
@pytest.mark.timeout(180)
def test_the_numbers_of_the_counter(server: Server) -> None:
    """R1, R2, R3: what is answered is stored, and nothing is stored twice."""

    def client(_: int) -> list[tuple[int, bytes]]:
        connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
        answers = []
        for _ in range(EACH):
            connection.request("POST", "/counter/@@next")
            response = connection.getresponse()
            answers.append((response.status, response.read()))
        connection.close()
        return answers

    with ThreadPoolExecutor(CLIENTS) as pool:
        answers = [answer for answers in pool.map(client, range(CLIENTS)) for answer in answers]
    assert Counter(status for status, _ in answers) == {200: CLIENTS * EACH}
    assert sorted(int(number) for _, number in answers) == list(range(1, CLIENTS * EACH + 1))

    server.restart()
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("POST", "/counter/@@next")
    assert connection.getresponse().read() == b"%d" % (CLIENTS * EACH + 1)  # what was answered is stored
    connection.close()
