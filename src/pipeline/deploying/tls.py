"""TLS that nginx or Apache ends: the certificate, its names, and the ciphers; and TLS that a proxy ended before."""

from __future__ import annotations

import argparse
import re
import ssl
from collections.abc import Iterable
from ipaddress import ip_network
from pathlib import Path

from pipeline.deploying.site import Tls, address_of, refusal, refuse_misread
from pipeline.http.hosts import Host
from pipeline.interfaces import ConfigurationError

ENDS_TLS = ("apache", "nginx")
"""Targets with ``--tls``."""

def tls_of(options: argparse.Namespace, host: str, port: int) -> Tls | None:
    """Return the certificate that the options name; None without --tls. Refuse options that do not fit."""
    if options.tls and options.target not in ENDS_TLS:
        raise refusal("no TLS", target=options.target, others=" and ".join(ENDS_TLS))
    if bool(options.tls) != bool(options.name):
        raise refusal("TLS without a name")
    if options.trusted_proxy and options.target != "nginx":
        raise refusal("no trusted proxy", target=options.target)
    for proxy in options.trusted_proxy:
        try:
            ip_network(proxy)
        except ValueError as error:
            raise ConfigurationError(f"--trusted-proxy {proxy}: not an address or network: {error}") from None
    if not options.tls:
        return None
    certificate, key = (str(Path(path).absolute()) for path in options.tls)
    names = [host_name(name) for name in options.name]
    refuse_misread(certificate, key)
    need_pair(certificate, key, names)
    if port == options.http_port:
        raise ConfigurationError(f"--http-port {port}: --port has the same number")
    return Tls(certificate, key, names, address_of(host, options.http_port), "" if port == 443 else f":{port}")


def host_name(text: str) -> str:
    """Return a name of a server in lower case; refuse text that is not a host name."""
    try:
        name, port = Host.parse(text)
        if port:
            raise ValueError("it has a port; --port sets it")
        if re.search(r"[\[_]", name) or name.replace(".", "").isdecimal():
            raise ValueError("it is an address, or has a sign that names do not have")
    except ValueError as error:
        raise ConfigurationError(f"--name {text}: not a host name such as www.example.com: {error}") from None
    return name


def need_pair(certificate: str, key: str, names: Iterable[str]) -> None:
    """Refuse files that are not there or cannot be read, a key of another certificate, and other names."""
    for path in (certificate, key):
        try:
            open(path, "rb").close()
        except OSError as error:
            raise ConfigurationError(f"--tls {path}: {error.strerror}") from None

    def passphrase() -> str:
        raise refusal("passphrase", key=key)

    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        server.load_cert_chain(certificate, key, passphrase)
    except ssl.SSLError as error:
        why = "the key is not that of the certificate" if "MISMATCH" in str(error) else f"not in PEM: {error}"
        raise ConfigurationError(f"--tls {certificate} {key}: {why}") from None
    for name in names:
        if error_text := error_of_a_visit(server, certificate, name):
            raise ConfigurationError(f"--tls {certificate}: {error_text}")


def error_of_a_visit(server: ssl.SSLContext, certificate: str, name: str) -> str:
    """Return why a browser would refuse the certificate for a name, or "". Its authority is not looked at."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.load_verify_locations(certificate)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    visit = client.wrap_bio(to_client, to_server, server_hostname=name)
    answer = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (visit, answer, visit):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLCertVerificationError as error:
            return error.verify_message
    return ""
