"""Hosts, ports, peers and forwarded headers: what they are, and what is none (S9, S10, S12)."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.http.hosts import Host, Peers, parse_forwarded, parse_node, parse_port, parse_scheme


@pytest.mark.parametrize(
    ("text", "name", "port"),
    [
        ("www.example.com", "www.example.com", None),
        ("WWW.Example.COM.", "www.example.com", None),
        ("localhost:8080", "localhost", 8080),
        ("my_host-1:1", "my_host-1", 1),
        ("xn--bcher-kva.example", "xn--bcher-kva.example", None),
        ("127.0.0.1:65535", "127.0.0.1", 65535),
        ("[::1]", "[::1]", None),
        ("[2001:DB8:0:0::1]:8080", "[2001:db8::1]", 8080),
        ("[::ffff:192.0.2.1]", "[::ffff:192.0.2.1]", None),
    ],
)
def test_a_host(text: str, name: str, port: int | None) -> None:
    host = Host.parse(text)
    assert host.name in (name, "[::ffff:c000:201]")  # Python 3.13 writes it as the first
    assert host.port == port
    assert Host.parse(host.written("http")[0]) == host


NO_HOST = [
    "",
    " ",
    ".",
    "a..b",
    ".example.com",
    "-a.com",
    "a-.com",
    "a b",
    "a,b",
    "www.example.com,www.example.com",
    "www.example.com, evil.example",
    "user@example.com",
    "example.com/path",
    "example.com?x",
    "example.com#x",
    "example.com\\x",
    "example.com:",
    "example.com:0",
    "example.com:65536",
    "example.com:80:80",
    "example.com:+80",
    "example.com:8O",
    "example.com:²",
    "exa\0mple.com",
    "exämple.com",
    "1.2.3",
    "256.1.1.1",
    "127.0.0.01",
    "0x7f.1",
    "[::1",
    "::1",
    "[::1]x",
    "[::1]:",
    "[::1]:x",
    "[fe80::1%eth0]",
    "[127.0.0.1]",
    "[v1.x]",
    "[]",
    "a" * 64 + ".com",
    "a." * 128 + "com",
]


@pytest.mark.parametrize("text", NO_HOST)
def test_no_host(text: str) -> None:
    with pytest.raises(ValueError):
        Host.parse(text)


def test_the_port_that_goes_without_saying() -> None:
    assert Host("a", 80).written("http") == ("a", "80")
    assert Host("a", 80).written("https") == ("a:80", "80")
    assert Host("a", None).written("https") == ("a", "443")
    assert Host("[::1]", 8443).written("https") == ("[::1]:8443", "8443")


def test_ports_and_schemes() -> None:
    assert parse_port("0443") == 443
    assert parse_scheme("HTTPS") == "https"
    for text in ("", "-1", "1 ", "99999", "123456", "٣"):
        with pytest.raises(ValueError):
            parse_port(text)
    for text in ("", "ftp", "javascript", "https:"):
        with pytest.raises(ValueError):
            parse_scheme(text)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("192.0.2.1:4711", "192.0.2.1"),
        ("192.0.2.1:_hidden", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::1"),
        ("[2001:DB8::1]", "2001:db8::1"),
        ("[2001:db8::1]:4711", "2001:db8::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("[fe80::1%25eth0]:4711", "fe80::1"),
        ('fe80::1%" 200 1\x85x', "fe80::1"),
        ("unknown", "unknown"),
        ("Unknown:80", "unknown"),
        ("_gazonk", "unknown"),
    ],
)
def test_a_node(text: str, address: str) -> None:
    assert parse_node(text) == address


@pytest.mark.parametrize("text", ["", "x", "1.2.3", "[::1", "[::1]x", "[1.2.3.4]", "_", "_a b", "-"])
def test_no_node(text: str) -> None:
    with pytest.raises(ValueError):
        parse_node(text)


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("", []),
        (" , ,", []),
        ("for=192.0.2.1", [{"for": "192.0.2.1"}]),
        ('For="[2001:db8::1]:4711"; Proto=HTTPS', [{"for": "[2001:db8::1]:4711", "proto": "HTTPS"}]),
        ("for=a, for=b;by=c,", [{"for": "a"}, {"for": "b", "by": "c"}]),
        ('host="a\\"b,c;d"', [{"host": 'a"b,c;d'}]),
        ("host=example.com:8080", [{"host": "example.com:8080"}]),
    ],
)
def test_forwarded(text: str, elements: list[dict[str, str]]) -> None:
    assert parse_forwarded(text) == elements


@pytest.mark.parametrize(
    "text", ["for", "for=", "=a", 'for="a', 'for="a"b', "for=a b", "for=a;for=b", "for =a", 'for="a\\', "(("]
)
def test_no_forwarded(text: str) -> None:
    with pytest.raises(ValueError):
        parse_forwarded(text)


@pytest.mark.parametrize(
    ("words", "address", "trusted"),
    [
        (["127.0.0.1"], "127.0.0.1", True),
        (["127.0.0.1"], "127.0.0.2", False),
        (["10.0.0.0/8"], "10.255.0.1", True),
        (["10.0.0.0/8"], "::ffff:10.1.2.3", True),
        (["10.0.0.0/8"], "::10.1.2.3", False),
        (["::1"], "::1", True),
        (["::1"], "0:0:0:0:0:0:0:1", True),
        (["fe80::/10"], "fe80::1%eth0", True),
        (["2001:db8::/32"], "2001:db9::1", False),
        (["0.0.0.0/0"], "::1", False),
        (["unix"], "", True),
        (["unix"], "localhost", True),
        (["unix"], "127.0.0.1", False),
        (["127.0.0.1"], "", False),
        (["127.0.0.1"], "nonsense", False),
        ([], "127.0.0.1", False),
    ],
)
def test_peers(words: list[str], address: str, trusted: bool) -> None:
    peers = Peers(words)
    assert peers[address] is trusted
    assert peers[address] is trusted, "and as it is remembered"


@pytest.mark.parametrize("word", ["localhost", "10.0.0.1/8", "300.1.1.1", "::1/129", ""])
def test_no_peer(word: str) -> None:
    with pytest.raises(ValueError):
        Peers([word])


def test_peers_are_not_remembered_without_bound() -> None:
    peers = Peers(["10.0.0.0/8"])
    for number in range(3000):
        assert peers[f"10.0.{number // 256}.{number % 256}"]
    assert len(peers) < 1100


def test_the_client_is_the_nearest_that_is_not_trusted() -> None:
    peers = Peers(["10.0.0.0/8"])
    assert peers.client(["192.0.2.1"]) == ("192.0.2.1", 1)
    assert peers.client(["nonsense", "192.0.2.1"]) == ("192.0.2.1", 1), "what lies further is not looked at"
    assert peers.client(["192.0.2.66", "192.0.2.1", "10.0.0.2", "10.0.0.1"]) == ("192.0.2.1", 3)
    assert peers.client(["10.0.0.2", "10.0.0.1"]) == ("10.0.0.2", 2), "a client of our own network"
    assert peers.client(["192.0.2.1", "unknown", "10.0.0.1"]) == ("unknown", 2)


@given(st.text())
def test_nothing_but_value_error(text: str) -> None:
    for parse in (Host.parse, parse_node, parse_forwarded, parse_port, parse_scheme):
        try:
            parse(text)
        except ValueError:
            pass


LONG = 200_000


@pytest.mark.parametrize(
    "text",
    [
        "for=a," * (LONG // 6),
        'for="' + "\\" * LONG,
        'for="' + '\\"' * (LONG // 2),
        "for=a" + ";" * LONG,
        "for=a" + " " * LONG,
        "," * LONG,
        "a" * LONG,
    ],
)
def test_forwarded_is_read_in_linear_time(text: str) -> None:
    """S12: 200 kB of the worst take less than a second on any machine; what is quadratic takes minutes."""
    start = time.process_time()
    try:
        parse_forwarded(text)
    except ValueError:
        pass
    assert time.process_time() - start < 1


@pytest.mark.parametrize("text", [*(part * LONG for part in ("a", "a.", "a-", "a:", "9")), "[" + ":" * LONG])
def test_a_host_is_read_in_linear_time(text: str) -> None:
    """S12."""
    start = time.process_time()
    for parse in (Host.parse, parse_node):
        with pytest.raises(ValueError):
            parse(text)
    assert time.process_time() - start < 1
