"""nginx in front of gunicorn, Granian or uWSGI: it takes slow clients, bodies and long answers off the threads."""

from __future__ import annotations

import os

from pipeline.deploying import granian, gunicorn, instances, systemd, tls, uwsgi
from pipeline.deploying.site import Deployment, Site, getgrgid, getgrnam, getpwnam, need_program, refuse_distrust
from pipeline.http.files import PASSED_ON
from pipeline.interfaces import ConfigurationError

BEHIND = {"gunicorn": gunicorn.write, "granian": granian.write, "systemd": systemd.write, "uwsgi": uwsgi.write}

REMEDY = "apt install nginx"

CONFIGURATION = """\
# nginx for {site.ini}, run by itself on a high port and without root. Written by `pipeline deploy nginx`.
# In the nginx of the system, include site.conf in a server {{}} instead.
{module}{user}pid {site.directory}/run/nginx.pid;
error_log {site.directory}/log/error.log warn;
worker_processes auto;
events {{
    # Half-sent requests and unread answers cost one each, and no thread of the site.
    worker_connections 4096;
}}
worker_rlimit_nofile 16384;
http {{
    # The site writes the access log.
    access_log off;
    server_tokens off;
    default_type application/octet-stream;
    sendfile on;
    client_body_temp_path {site.directory}/run/body;
    proxy_temp_path {site.directory}/run/proxy;
    uwsgi_temp_path {site.directory}/run/uwsgi;
    fastcgi_temp_path {site.directory}/run/fastcgi;
    scgi_temp_path {site.directory}/run/scgi;
    upstream site_{site.port} {{
{upstream}    }}
    # The port in Host. If a request line names another host, that one counts, not Host (RFC 9112 section 3.2.2).
    map "$host $http_host" $asked_port_{site.port} {{
        default "";
        "~*^(?<asked>[^ ]+) \\k<asked>\\.?(?<asked_port>:[0-9]+)$" $asked_port;
    }}
{servers[http]}    server {{
{servers[listen]}        # The port of a redirect is the visitor's.
        absolute_redirect off;
{servers[include]}        include {site.directory}/site.conf;
    }}
}}
{stream}"""

NO_VHOST = "The site takes nginx for each visitor. Let the element vhost trust it (docs/howto/virtual-hosting.rst)."

USER = """\
# Root starts nginx. Without this line its processes run as a user that may not connect to the site.
user {site.user} {site.group};
"""

ONE = """\
        # A start again of the site lets clients wait here: it is not taken for dead.
        server unix:{site.socket} max_fails=0;
"""

SEVERAL = """\
        # This nginx itself: stream {{}} below finds an instance that takes the connection.
        server 127.0.0.1:{inner} max_fails=0;
"""

LIMITS = """\
# Part of a server {{}}: the site of {site.ini}. Written by `pipeline deploy nginx`.
# Bytes of a body: the limit of the elements, and a little more, so that the site's page says 413.
client_max_body_size {site.max_body};
# Seconds that a client has for its headers, between two parts of its body and between two reads of an answer (R10).
client_header_timeout 20s;
client_body_timeout 20s;
send_timeout 60s;
reset_timedout_connection on;
# Longer than a browser sends: the site says 414.
large_client_header_buffers 4 32k;
# A slash in a name, %2F, and two slashes reach the site as they were sent.
merge_slashes off;
# The path forms of virtual hosting are between a proxy and the site; from outside they are refused (S9).
location ~ /(VirtualHostBase|VirtualHostRoot|_vh_[^/]*|\\+\\+vh\\+\\+[^/]*)(/|$) {{
    return 400;
}}
"""

HTTP = """\
location {path} {{
    proxy_pass http://site_{site.port};
    proxy_http_version 1.1;
    # A connection for each request: the site may close one that was kept, and a POST is not sent twice.
    proxy_set_header Connection close;
    # The host that nginx has read, with its port: redirects lead back to it.
    proxy_set_header Host $host$asked_port_{site.port};
    # What a visitor says of another visitor is replaced, or dropped (S13).
    proxy_set_header X-Forwarded-For $remote_addr;
    proxy_set_header X-Forwarded-Host $host$asked_port_{site.port};
    proxy_set_header X-Forwarded-Proto {scheme};
    proxy_set_header X-Forwarded-Port {port};
    proxy_set_header X-Forwarded-Prefix "";
    proxy_set_header Forwarded "";
    proxy_set_header X-Vhm-Host "";
    proxy_set_header X-Vhm-Root "";
    proxy_set_header SCRIPT-NAME "";
    # The name of a user is not the visitor's to say. If this nginx asks for it (auth_request), set its value here.
{users}    # HTTPoxy: no library takes this for its proxy.
    proxy_set_header Proxy "";
    # The body is taken from a slow client before a thread of the site is.
    proxy_request_buffering on;
    # And so is the answer, on the disk if need be. A stream that is to arrive at once says X-Accel-Buffering: no.
    proxy_buffering on;
    proxy_max_temp_file_size 2048m;
    # Bytes of the headers of an answer: the site's cookies have up to 4,000 each. With the default, one page, the
    # answer to what the site has committed would be a 502.
    proxy_buffer_size 64k;
    proxy_buffers 8 64k;
    proxy_busy_buffers_size 128k;
    # Seconds between two blocks of an answer; then 504.
    proxy_read_timeout {seconds}s;
    # Seconds to be connected: a start again of the site takes less.
    proxy_connect_timeout 30s;
    # What the site may have done is not done again.
    proxy_next_upstream off;
}}
"""

UWSGI = """\
location {path} {{
    uwsgi_pass site_{site.port};
    uwsgi_param REQUEST_METHOD $request_method;
    uwsgi_param REQUEST_URI $request_uri;
    uwsgi_param PATH_INFO $document_uri;
    uwsgi_param QUERY_STRING $query_string;
    uwsgi_param CONTENT_TYPE $content_type;
    uwsgi_param CONTENT_LENGTH $content_length;
    uwsgi_param SERVER_PROTOCOL $server_protocol;
    uwsgi_param SERVER_NAME $server_name;
    uwsgi_param SERVER_PORT {port};
    uwsgi_param REMOTE_ADDR $remote_addr;
    uwsgi_param REMOTE_PORT $remote_port;
    uwsgi_param UWSGI_SCHEME {scheme};
    # uWSGI would take this header of a visitor for the scheme (S13): it is not sent.
    uwsgi_param HTTP_X_FORWARDED_PROTO "" if_not_empty;
    # nginx has undone the chunks, and says the length.
    uwsgi_param HTTP_TRANSFER_ENCODING "";
    # HTTPoxy: no library takes this for its proxy.
    uwsgi_param HTTP_PROXY "";
    # The host that nginx has read, with its port: redirects lead back to it.
    uwsgi_param HTTP_HOST $host$asked_port_{site.port} if_not_empty;
    # REMOTE_USER is not sent: nginx does not verify a login. Nor is the name of a user in a header of a visitor
    # (S13). If this nginx asks for it (auth_request), set its value here.
{users}    uwsgi_request_buffering on;
    uwsgi_buffering on;
    uwsgi_max_temp_file_size 2048m;
    # Bytes of the headers of an answer: the site's cookies have up to 4,000 each. With the default, one page, the
    # answer to what the site has committed would be a 502.
    uwsgi_buffer_size 64k;
    uwsgi_buffers 8 64k;
    uwsgi_busy_buffers_size 128k;
    uwsgi_connect_timeout 10s;
    uwsgi_read_timeout {seconds}s;
    # What the site may have done is not done again.
    uwsgi_next_upstream off;
}}
"""

INTERNAL = """\
# Files that the site leaves to nginx by X-Accel-Redirect. From outside this is a 404.
location ^~ {location} {{
    internal;
    alias "{directory}/";
    # A link that was put there after the site has looked leads nowhere.
    disable_symlinks on from="{directory}";
    # The site has answered 304 if the client has the file. Its ETag and its date count, for ranges too.
    etag off;
    if_modified_since off;
    # nginx keeps the type, the name, the cookies and the caching of the site's answer, and would drop these.
{headers}}}
"""


def internal(site: Site) -> str:
    """Return the internal locations of the files that nginx sends itself."""
    values = {name: f"$upstream_http_{name.lower().replace('-', '_')}" for name in PASSED_ON}
    if site.tls:
        values["Strict-Transport-Security"] = f"$hsts_{site.port}"
    headers = "".join(f"    add_header {name} {value};\n" for name, value in values.items())
    parts = []
    for directory, location in site.locations.items():
        if any(sign in directory for sign in '"\\$\n'):
            raise ConfigurationError(
                f"sendfile, locations: nginx would misread {directory!r}; choose a directory without such signs"
            )
        parts.append(INTERNAL.format(location=location, directory=directory.rstrip("/"), headers=headers))
    return "".join(parts)


def notes_on_socket(site: Site) -> list[str]:
    """Say who may connect to the UNIX socket, if nginx may not."""
    if site.behind == "systemd" or can_give(site.group):
        return []
    own = getgrgid(os.getegid()).gr_name
    return [
        f"Only the group {own} may connect to {site.socket}: you cannot give files to the group {site.group}. "
        f"If nginx runs as another user, add that user to the group: sudo usermod -aG {own} USER"
    ]


def user_line(site: Site) -> str:
    """Return the line that says who runs nginx if root starts it; none for others, to whom nginx would say so."""
    try:
        getpwnam(site.user)
    except KeyError:
        return ""
    return USER.format(site=site) if os.geteuid() == 0 and can_give(site.group) else ""


def can_give(group: str) -> bool:
    """Return whether this user can give a file to a group."""
    try:
        gid = getgrnam(group).gr_gid
    except KeyError:
        return False
    return os.geteuid() == 0 or gid in (os.getegid(), *os.getgroups())


def write(site: Site) -> Deployment:
    """Write nginx and the server behind it."""
    program = need_program("nginx", REMEDY)
    by_uwsgi = site.behind == "uwsgi" and not site.upstreams
    if not by_uwsgi:  # uWSGI's protocol has a field for the address of the visitor
        refuse_distrust(site, "nginx")
    if site.upstreams:
        inner = Deployment({}, (), (), (), ())
        upstream = SEVERAL.format(inner=instances.inner_port(site))
    else:
        inner = BEHIND[site.behind](site._replace(behind_proxy=True))
        group = site.group if can_give(site.group) else ""
        inner = inner._replace(group=group, notes=[*inner.notes, *notes_on_socket(site)])
        upstream = ONE.format(site=site)

    number = site.port
    scheme, port = (f"$scheme_{number}", f"$port_{number}") if site.proxies else ("$scheme", "$server_port")

    blank = '    proxy_set_header {} "";\n'
    names = site.user_headers
    if by_uwsgi:
        blank = '    uwsgi_param HTTP_{} "" if_not_empty;\n'
        names = [name.upper().replace("-", "_") for name in names]
    users = "".join(map(blank.format, names))

    def location(path: str, seconds: int = 60) -> str:
        text = UWSGI if by_uwsgi else HTTP
        return text.format(site=site, path=path, seconds=seconds, scheme=scheme, port=port, users=users)

    parts = [LIMITS.format(site=site), location(site.path)]
    if site.prefix:
        parts.append(location(f"= {site.prefix}"))
    if site.health != site.path:
        parts += ["# Whether the site is ready: soon, or it is not.\n", location(f"= {site.health}", seconds=5)]
    parts.append(internal(site))
    strange = [] if by_uwsgi or any(told.distrusts for _, told in site.facts) else [NO_VHOST]
    if site.locations:
        files = f"nginx sends the files in {', '.join(site.locations)}: its user needs to read them."
    else:
        files = "nginx can send files itself: see the element sendfile in docs/howto/serving.rst."
    call = f"{program} -p {site.directory} -c {site.directory}/nginx.conf -e stderr"
    nginx_conf = CONFIGURATION.format(
        site=site,
        upstream=upstream,
        servers=tls.nginx_servers(site, program),
        user=user_line(site),
        module=instances.module_line(program) if site.upstreams else "",
        stream=instances.stream(site) if site.upstreams else "",
    )
    written = {"nginx.conf": nginx_conf, "site.conf": "".join(parts)}
    if site.tls:
        written["tls.conf"] = tls.filled(tls.NGINX, site)
    watch, unwatch = [], []
    if site.upstreams:
        written |= instances.watching(site, f"{call} -s reload")
        if site.health != site.path:
            watch, unwatch = [f"{site.directory}/watch.sh"], [f"kill $(cat {site.directory}/run/watch.pid)"]
    return Deployment(
        {**inner.files, **written},
        start=[*inner.start, f"{call} -g 'daemon off;'", *watch],
        stop=[*unwatch, f"{call} -s quit", *inner.stop],
        reload=inner.reload or [f"{call} -s reload"],
        syntax=[*call.split(), "-t"],
        group=inner.group,
        notes=[
            *inner.notes,
            *strange,
            files,
            f"After a change of nginx.conf or site.conf: {call} -s reload",
            *tls.notes_on_tls(site, f"{call} -s reload"),
        ],
        user=inner.user,
    )
