"""lighttpd with FastCGI: it starts the site as a process of its own."""

from __future__ import annotations

from pipeline.tools.deploy.fastcgi import script
from pipeline.tools.deploy.site import Deployment, Site, need_program

CONFIGURATION = """\
# lighttpd for {site.ini}. Written by `pipeline deploy lighttpd`.
server.bind = "{site.host}"
server.port = {site.port}
# It holds nothing: every path is the site's.
server.document-root = "{site.directory}/run"
server.pid-file = "{site.directory}/run/lighttpd.pid"
server.errorlog = "{site.directory}/log/error.log"
server.upload-dirs = ( "{site.directory}/run" )
server.modules = ( "mod_fastcgi" )
# KiB of a body: the limit of the elements, and a little more, so that the site's page says 413.
server.max-request-size = {kib}
# Bytes of all headers: eight cookies that are as large as browsers keep them, and the others.
server.max-request-field-size = 65536
# Seconds without a byte from, or to, a client.
server.max-read-idle = 30
server.max-write-idle = 60
# A block is sent when the site has made it.
server.stream-response-body = 1
# A %2F stays one: the site tells a slash in a name from a slash between names.
server.http-parseopts = ( "url-path-2f-decode" => "disable", "url-path-2f-reject" => "disable" )
fastcgi.server = ( "{site.path}" => ((
    "socket" => "{site.directory}/run/fcgi.sock",
    "bin-path" => "{site.directory}/site.fcgi",
    # Processes, each with {site.threads} threads; one if the database is a file.
    "max-procs" => {site.workers},
    # The paths are not those of files.
    "check-local" => "disable",
{fix})) )
"""

FIX = """\
    # At "/" SCRIPT_NAME is empty, and the path stands in PATH_INFO (RFC 3875).
    "fix-root-scriptname" => "enable",
"""


def write(site: Site) -> Deployment:
    """Write the configuration, the FastCGI program and the script of the site."""
    program = need_program("lighttpd", "apt install lighttpd")
    configuration = CONFIGURATION.format(site=site, kib=-(-site.max_body // 1024), fix="" if site.prefix else FIX)
    if site.prefix:  # else SCRIPT_NAME would end with a slash
        configuration = configuration.replace(f'"{site.path}" => ((', f'"{site.prefix}" => ((')
    name = f"{site.directory}/lighttpd.conf"
    pid = f"{site.directory}/run/lighttpd.pid"
    return Deployment(
        {**site.script, "site.fcgi": script(site), "lighttpd.conf": configuration},
        start=[f"{program} -D -f {name}"],
        stop=[f"kill -INT $(cat {pid})"],
        reload=[f"{site.python} {site.directory}/wsgi.py && kill -USR1 $(cat {pid})"],
        syntax=[program, "-tt", "-f", name],
        notes=["A stop lets answers finish (SIGINT), and a reload starts the site again: meanwhile clients wait."],
    )
