"""lighttpd in front of gunicorn, by mod_proxy: it takes slow clients and bodies off the threads of the site."""

from __future__ import annotations

from pipeline.deploying import gunicorn
from pipeline.deploying.site import Deployment, Site, need_program, refuse_distrust

CONFIGURATION = """\
# lighttpd for {site.ini}. Written by `pipeline deploy lighttpd`.
server.bind = "{site.host}"
server.port = {site.port}
# It holds nothing: every path is the site's.
server.document-root = "{site.directory}/run"
server.pid-file = "{site.directory}/run/lighttpd.pid"
server.errorlog = "{site.directory}/log/error.log"
server.upload-dirs = ( "{site.directory}/run" )
server.modules = ( "mod_access", "mod_setenv", "mod_proxy" )
# KiB of a body: the limit of the elements, and a little more, so that the site's page says 413.
server.max-request-size = {kib}
# Bytes of all headers: eight cookies that are as large as browsers keep them, and the others.
server.max-request-field-size = 65536
# Seconds without a byte from, or to, a client.
server.max-read-idle = 30
server.max-write-idle = 60
# Seconds that requests have to finish when it stops.
server.feature-flags += ( "server.graceful-shutdown-timeout" => 30 )
# A block is sent when the site has made it; a body is taken from a slow client before a thread of the site is.
server.stream-response-body = 1
server.stream-request-body = 0
# A %2F stays one: the site tells a slash in a name from a slash between names.
server.http-parseopts = ( "url-path-2f-decode" => "disable", "url-path-2f-reject" => "disable" )
# The path forms of virtual hosting are between a proxy and the site; from outside they are refused (S9).
$HTTP["url"] =~ "^/(VirtualHostBase|VirtualHostRoot|_vh_|\\+\\+vh\\+\\+)" {{
    url.access-deny = ( "" )
}}
# What a visitor says of another visitor is dropped (S13); mod_proxy says X-Forwarded-For, -Host and -Proto itself.
# And HTTPoxy: no library takes Proxy for its proxy.
setenv.set-request-header = (
    "X-Forwarded-For" => "", "X-Forwarded-Host" => "", "X-Forwarded-Proto" => "", "X-Forwarded-Port" => "",
    "X-Forwarded-Prefix" => "", "X-Forwarded-Ssl" => "", "Forwarded" => "", "X-Vhm-Host" => "", "X-Vhm-Root" => "",
    "SCRIPT-NAME" => "", "Proxy" => "",
    # The name of a user is not the visitor's to say.
    {users}
)
proxy.server = ( "{path}" => (( "socket" => "{site.socket}" )) )
"""


def write(site: Site) -> Deployment:
    """Write lighttpd, and gunicorn behind it."""
    program = need_program("lighttpd", "apt install lighttpd")
    refuse_distrust(site, "lighttpd")
    inner = gunicorn.write(site._replace(behind_proxy=True, behind="gunicorn"))
    path = site.prefix or "/"
    users = ", ".join(f'"{name}" => ""' for name in site.user_headers)
    configuration = CONFIGURATION.format(site=site, kib=-(-site.max_body // 1024), path=path, users=users)
    name = f"{site.directory}/lighttpd.conf"
    return Deployment(
        {**inner.files, "lighttpd.conf": configuration},
        start=[*inner.start, f"{program} -D -f {name}"],
        stop=[f"kill -INT $(cat {site.directory}/run/lighttpd.pid)", *inner.stop],
        reload=inner.reload,
        syntax=[program, "-tt", "-f", name],
        notes=["lighttpd must be able to connect to the socket of the site: run both as one user."],
    )
