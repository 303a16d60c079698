"""Several instances behind nginx: it finds one that takes the connection, among those that are ready."""

from __future__ import annotations

import subprocess
from pathlib import Path

from pipeline.deploying.site import Site
from pipeline.interfaces import ConfigurationError

STREAM = """\
# Only a connection is passed on to the next instance, before anything of the request is sent: a request is never
# sent twice (R4). An instance whose answer takes long is not left out: a connection that was made is a success.
stream {{
    upstream instances_{site.port} {{
        include {site.directory}/instances.conf;
    }}
    server {{
        listen 127.0.0.1:{inner};
        proxy_pass instances_{site.port};
        # Seconds until a machine that is gone is given up, and in which the next ones are tried.
        proxy_connect_timeout 2s;
        proxy_next_upstream_timeout 10s;
        # The time-outs of an answer are those of site.conf.
        proxy_timeout 1h;
    }}
}}
"""

IN_TURN = "server {one} max_fails=1 fail_timeout=2s;\n"
AT_LAST = "server {one} max_fails=0 backup;\n"
LIST = """\
# The instances that are ready. One that refuses, or is gone, is left out for 2 seconds.
{in_turn}# If all of them are left out, every instance is asked all the same.
{at_last}"""

WATCH = """\
#!/bin/sh
# Asks each instance every second whether it is ready, and writes instances.conf, so that nginx asks those that are.
# One that is about to stop says 503: nginx leaves it out before it stops (R9). Written by `pipeline deploy nginx`.
set -u
cd {site.directory}
echo $$ > run/watch.pid
# Each takes 2 seconds at most: a machine that is gone does not answer.
is_ready() {{
    curl --fail --silent --max-time 2 --output /dev/null "http://$1{site.health}"
}}
while :; do
    ready=
    for one in {instances}; do
        if is_ready $one; then ready="$ready $one"; fi
    done
    # If none is ready, all are asked: the site says itself why not.
    printf '{in_turn}' ${{ready:-{instances}}} > run/instances.new
    printf '{at_last}' {instances} >> run/instances.new
    # A reload of nginx loses no request. Only a change is one.
    if ! cmp -s run/instances.new instances.conf; then
        mv run/instances.new instances.conf
        {reload}
    fi
    sleep 1
done
"""


def inner_port(site: Site) -> int:
    """Return the port on which nginx finds an instance for itself."""
    return site.port + 1 if site.port < 65535 else site.port - 1


def stream(site: Site) -> str:
    """Return the part of the configuration that passes a connection on."""
    return STREAM.format(site=site, inner=inner_port(site))


def watching(site: Site, reload: str) -> dict[str, str]:
    """Return the list of the instances, and the program that asks them whether they are ready.

    reload  the command that lets nginx read the list again
    """
    in_turn, at_last = ("".join(line.format(one=one) for one in site.upstreams) for line in (IN_TURN, AT_LAST))
    watch = WATCH.format(
        site=site,
        instances=" ".join(site.upstreams),
        in_turn=for_printf(IN_TURN),
        at_last=for_printf(AT_LAST),
        reload=reload,
    )
    return {"instances.conf": LIST.format(in_turn=in_turn, at_last=at_last), "watch.sh": watch}


def for_printf(line: str) -> str:
    """Return a line of the list as the format of printf in a shell."""
    return line.format(one="%s").replace("\n", "\\n")


def module_line(program: str) -> str:
    """Return the line that loads nginx's module "stream", unless it is built in; refuse an nginx without it."""
    built = subprocess.run([program, "-V"], capture_output=True, text=True, check=False).stderr.split()
    if "--with-stream" in built:
        return ""
    places = [word.partition("=")[2] for word in built if word.startswith("--modules-path=")]
    module = Path(places[0] if places else "/usr/lib/nginx/modules", "ngx_stream_module.so")
    if not module.exists():
        raise ConfigurationError(
            f"{program} has no module stream, which finds an instance that takes a connection: "
            f"apt install libnginx-mod-stream"
        )
    return f"# It passes connections on, for several instances.\nload_module {module};\n"
