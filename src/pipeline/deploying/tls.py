"""TLS that nginx or Apache ends: the certificate, its names, and the ciphers; and TLS that a proxy ended before."""

from __future__ import annotations

import argparse
import re
import ssl
import subprocess
from collections.abc import Iterable, Sequence
from ipaddress import ip_network
from pathlib import Path

from pipeline.deploying.site import Site, Tls, address_of, refuse_misread
from pipeline.http.hosts import Host
from pipeline.interfaces import ConfigurationError
from pipeline.loading.command_line import port

ENDS_TLS = ("apache", "nginx")
"""Targets with ``--tls``."""
HSTS = "max-age=63072000"
"""Strict-Transport-Security, unless the site sends its own: two years, for this host alone."""
CIPHERS = ":".join(
    (
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "ECDHE-RSA-AES128-GCM-SHA256",
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "ECDHE-RSA-AES256-GCM-SHA384",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "ECDHE-RSA-CHACHA20-POLY1305",
        "DHE-RSA-AES128-GCM-SHA256",
        "DHE-RSA-AES256-GCM-SHA384",
        "DHE-RSA-CHACHA20-POLY1305",
    )
)
"""Mozilla's "intermediate" list (Server Side TLS 5.7), for TLS 1.2. TLS 1.3 has good ciphers only."""
CHALLENGES = "/.well-known/acme-challenge/"
"""The path below which an authority looks for a file, by HTTP, when a certificate is renewed."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for TLS."""
    parser.add_argument(
        "--tls",
        nargs=2,
        metavar=("CERT", "KEY"),
        help="apache, nginx: serve HTTPS with this certificate and key, in PEM files",
    )
    parser.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="HOST",
        help="with --tls: a host of the certificate, such as www.example.com; once for each",
    )
    parser.add_argument(
        "--http-port", type=port, default=80, help="with --tls: the port of the redirect (default: %(default)s)"
    )
    parser.add_argument(
        "--trusted-proxy",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="nginx: a proxy before it that ends TLS, whose scheme is kept: an address or network; once for each",
    )


def tls_of(options: argparse.Namespace, host: str, port: int) -> Tls | None:
    """Return the certificate that the options name; None without --tls. Refuse options that do not fit."""
    check_target(options.target, options.trusted_proxy, options.name, options.tls)
    if not options.tls:
        return None
    certificate, key = (str(Path(path).absolute()) for path in options.tls)
    names = [host_name(name) for name in options.name]
    for path in (certificate, key):
        refuse_misread(path)
    need_pair(certificate, key, names)
    if port == options.http_port:
        raise ConfigurationError(f"--http-port {port}: --port has the same number")
    return Tls(certificate, key, names, address_of(host, options.http_port), "" if port == 443 else f":{port}")


def check_target(target: str, proxies: Iterable[str], names: Sequence[str], files: Sequence[str] | None) -> None:
    """Refuse the options for TLS of a target that does not have them, and options that go together."""
    if files and target not in ENDS_TLS:
        raise ConfigurationError(
            f"--tls: {target} ends no TLS here, but {' and '.join(ENDS_TLS)} do. Deploy nginx in front of it: "
            f"pipeline deploy nginx --tls CERT KEY --name HOST"
        )
    if bool(files) != bool(names):
        raise ConfigurationError(
            "--tls and --name go together: --tls CERT KEY names the files, --name HOST a host of the certificate"
        )
    if proxies and target != "nginx":
        raise ConfigurationError(
            f"--trusted-proxy: {target} passes on what a proxy says. Let the element vhost trust the proxy: "
            f"trusted = ADDRESS, accept = X-Forwarded (docs/howto/virtual-hosting.rst)"
        )
    for proxy in proxies:
        try:
            ip_network(proxy)
        except ValueError as error:
            raise ConfigurationError(f"--trusted-proxy {proxy}: not an address or network: {error}") from None


def host_name(text: str) -> str:
    """Return a name of a server in lower case; refuse text that is not a host name."""
    try:
        name, port = Host.parse(text)
        if port:
            raise ValueError("it has a port; --port sets it")
        if re.search(r"[\[_]", name) or name.replace(".", "").isdecimal():
            raise ValueError("it is an address, or has a sign that names do not have")
    except ValueError as error:
        raise ConfigurationError(
            f"--name {text}: not a host name such as www.example.com: {error}"
        ) from None
    return name


def need_pair(certificate: str, key: str, names: Iterable[str]) -> None:
    """Refuse files that are not there or cannot be read, a key of another certificate, and other names."""
    for path in (certificate, key):
        try:
            with open(path, "rb"):
                pass
        except OSError as error:
            raise ConfigurationError(f"--tls {path}: {error.strerror}") from None

    def passphrase() -> str:
        raise ConfigurationError(
            f"--tls {key}: the key has a passphrase, which the server cannot type when it starts: "
            f"openssl pkey -in {key} -out NEW"
        )

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


def http2(program: str) -> tuple[str, str]:
    """Return what nginx needs for HTTP/2: a word of ``listen``, and a line of its own since 1.25.1."""
    said = subprocess.run([program, "-v"], capture_output=True, text=True, check=False).stderr
    version = tuple(map(int, re.findall(r"\d+", said)[:3]))
    return (" http2", "") if version < (1, 25, 1) else ("", "        http2 on;\n")


NGINX = """\
# Part of a server {{}} that listens with ssl. Written by `pipeline deploy nginx`.
ssl_certificate {tls.certificate};
ssl_certificate_key {tls.key};
# Mozilla's "intermediate" list: every browser since 2014. What is older can be read by others. nginx takes the
# protocols of the default server of the port.
ssl_protocols TLSv1.2 TLSv1.3;
ssl_ciphers {ciphers};
ssl_prefer_server_ciphers off;
ssl_ecdh_curve X25519:prime256v1:secp384r1;
# A client that comes back needs no new keys for a day. Tickets would all be read with one key for ever.
ssl_session_timeout 1d;
ssl_session_cache shared:site_{site.port}:10m;
ssl_session_tickets off;
# Browsers never come by HTTP again (HSTS). What the site says itself counts, such as hsts of shield.
proxy_hide_header Strict-Transport-Security;
uwsgi_hide_header Strict-Transport-Security;
add_header Strict-Transport-Security $hsts_{site.port} always;
"""

NGINX_MAP = """\
    # HSTS: what the site says, and else two years.
    map $upstream_http_strict_transport_security $hsts_{site.port} {{
        "" {hsts};
        default $upstream_http_strict_transport_security;
    }}
"""

NGINX_SERVERS = """\
    # Names that the certificate does not have are not served. Of the default server the protocols count for all.
    server {{
        listen {site.address} ssl{word} default_server;
        include {site.directory}/tls.conf;
        ssl_reject_handshake on;
        location / {{
            return 421;
        }}
    }}
    # By HTTP there is only the way to HTTPS. 308 keeps the method: with 301, browsers turn a POST into a GET.
    server {{
        listen {tls.http};
        server_name {names};
        # The files by which certbot shows who renews a certificate.
        location ^~ {challenges} {{
            root {site.directory}/acme;
        }}
        location / {{
            return 308 https://$host{tls.port}$request_uri;
        }}
    }}
    server {{
        listen {tls.http} default_server;
        return 421;
    }}
"""

PROXIES = """\
    # TLS ends at a proxy before this nginx: it alone is believed the scheme, port and visitor (S13).
    geo $realip_remote_addr $proxied_{site.port} {{
        default 0;
{proxies}    }}
    map "$proxied_{site.port} $http_x_forwarded_proto" $scheme_{site.port} {{
        default $scheme;
        "~^1 (?:.*, *)?https$" https;
        "~^1 (?:.*, *)?http$" http;
    }}
    map $scheme_{site.port} $usual_port_{site.port} {{
        default 80;
        https 443;
    }}
    map "$proxied_{site.port} $http_x_forwarded_port" $port_{site.port} {{
        default $server_port;
        "~^1 (?:.*, *)?(?<believed_port>[0-9]+)$" $believed_port;
        "~^1 " $usual_port_{site.port};
    }}
    real_ip_header X-Forwarded-For;
    real_ip_recursive on;
{believed}"""

APACHE_MODULES = ("ssl", "socache_shmcb", "headers", "http2", "rewrite")

APACHE = """\
# Part of a <VirtualHost>. Written by `pipeline deploy apache`.
SSLEngine On
# A virtual host does not inherit this: a %2F stays one.
AllowEncodedSlashes NoDecode
SSLCertificateFile "{tls.certificate}"
SSLCertificateKeyFile "{tls.key}"
Protocols h2 http/1.1
# Mozilla's "intermediate" list: every browser since 2014. What is older can be read by others.
SSLProtocol -all +TLSv1.2 +TLSv1.3
SSLCipherSuite {ciphers}
SSLHonorCipherOrder Off
SSLOpenSSLConfCmd Curves X25519:prime256v1:secp384r1
# Tickets would all be read with one key that is never changed.
SSLSessionTickets Off
# Browsers never come by HTTP again (HSTS). What the site says itself counts, such as hsts of shield.
Header always set Strict-Transport-Security "{hsts}" "expr=-z resp('Strict-Transport-Security')"
"""

APACHE_HOSTS = """\
# A client that comes back needs no new keys for a day.
SSLSessionCache "shmcb:run/tls(512000)"
SSLSessionCacheTimeout 86400
# Names that the certificate does not have are not served.
<VirtualHost {site.address}>
    ServerName unknown.invalid
    Include tls.conf
    RewriteEngine On
    RewriteRule ^ - [R=421,L]
</VirtualHost>
<VirtualHost {site.address}>
    ServerName {first}
{aliases}    Include tls.conf
</VirtualHost>
<VirtualHost {tls.http}>
    ServerName unknown.invalid
    RewriteEngine On
    RewriteRule ^ - [R=421,L]
</VirtualHost>
# By HTTP there is only the way to HTTPS. 308 keeps the method: with 301, browsers turn a POST into a GET.
<VirtualHost {tls.http}>
    ServerName {first}
{aliases}    # The files by which certbot shows who renews a certificate.
    Alias {challenges} "{site.directory}/acme{challenges}"
    AllowEncodedSlashes NoDecode
    RewriteEngine On
    RewriteCond %{{REQUEST_URI}} !^{challenges}
    # The path as it was sent; the query is added to it.
    RewriteCond %{{THE_REQUEST}} "^[^ ]+ (?:[Hh][Tt][Tt][Pp]://[^/ ]*)?(/[^ ?]*)"
    RewriteRule ^ https://%{{SERVER_NAME}}{tls.port}%1 [R=308,L,NE]
</VirtualHost>
<Directory "{site.directory}/acme">
    Require all granted
</Directory>
"""


def filled(template: str, site: Site, **values: str) -> str:
    """Return a part of a configuration."""
    return template.format(site=site, tls=site.tls, ciphers=CIPHERS, hsts=HSTS, challenges=CHALLENGES, **values)


def nginx_servers(site: Site, program: str) -> dict[str, str]:
    """Return the parts of nginx.conf that say how visitors come, by their name there."""
    http = ""
    if site.proxies:
        values = "".join(f"        {proxy} 1;\n" for proxy in site.proxies)
        believed = "".join(f"    set_real_ip_from {proxy};\n" for proxy in site.proxies)
        http += filled(PROXIES, site, proxies=values, believed=believed)
    if not site.tls:
        return {"http": http, "listen": f"        listen {site.address};\n", "include": ""}
    word, line = http2(program)
    names = " ".join(site.tls.names)
    http += filled(NGINX_MAP, site) + filled(NGINX_SERVERS, site, word=word, names=names)
    return {
        "http": http,
        "listen": f"        listen {site.address} ssl{word};\n{line}        server_name {names};\n",
        "include": f"        include {site.directory}/tls.conf;\n",
    }


def apache_hosts(site: Site, modules: Path) -> tuple[str, str]:
    """Return the lines that load Apache's modules for TLS and say on which port, and the hosts; "" without TLS."""
    if not site.tls:
        return "", ""
    first, *others = site.tls.names
    aliases = "".join(f"    ServerAlias {name}\n" for name in others)
    loaded = "".join(f'LoadModule {name}_module "{modules}/mod_{name}.so"\n' for name in APACHE_MODULES)
    return f"Listen {site.tls.http}\n{loaded}", filled(APACHE_HOSTS, site, first=first, aliases=aliases)


def notes_on_tls(site: Site, reload: str) -> list[str]:
    """Say how a renewed certificate is loaded, and that a low port is root's."""
    if not site.tls:
        return []
    return [
        f"After the certificate is renewed: {reload}. With certbot: certbot certonly --webroot -w "
        f"{site.directory}/acme -d {' -d '.join(site.tls.names)} --deploy-hook '{reload}'",
        *(["Root starts it: no other user may listen on a port below 1024."] if site.port < 1024 else []),
    ]
