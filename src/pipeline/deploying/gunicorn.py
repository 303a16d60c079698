"""gunicorn: processes with threads. It drains, reloads without loss and takes its socket from systemd."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipeline.deploying.site import Deployment, Site, need_module, need_program

CONFIGURATION = """\
# gunicorn for {site.ini}. Written by `pipeline deploy gunicorn`.

{imports}wsgi_app = "wsgi:application"
# The directory of wsgi.py.
chdir = {directory!r}
# A socket of systemd (LISTEN_FDS) takes the place of this one. It is for a proxy: one visitor who leaves a
# finished connection open stops the threads of a process for 2 seconds.
bind = [{bind!r}]
# Processes; one if the database is a file.
workers = {site.workers}
# Threads of each process: a request occupies one until it is answered.
threads = {site.threads}
worker_class = "gthread"
# Each worker loads the site itself: no process uses a connection that another one opened (R12).
preload_app = False
# Seconds that requests have to finish on SIGTERM and SIGHUP.
graceful_timeout = 30
# Seconds without a sign of life after which a worker is replaced; a request that takes long is not meant.
timeout = 60
# Seconds that a connection is kept for the next request{kept}.
keepalive = {keepalive}
# Bytes of a request line; the site itself says 414 to what is longer than a browser sends.
limit_request_line = 0
# Bytes of a header: eight cookies that are as large as browsers keep them.
limit_request_field_size = 32768
# Proxies on this machine may say that the visitor came by https. The address of the visitor is left to vhost.
forwarded_allow_ips = "127.0.0.1,::1"
# No socket for remote control.
control_socket_disable = True
# The site writes the access log; this is the log of the server.
accesslog = None
errorlog = "-"
pidfile = {pid!r}
{prefix}{umask}{figures}{ready}{starting}"""

UMASK = """\
# The socket is for the group of run/, which is that of the proxy: vhost believes each peer on it.
umask = 0o117
"""
READY = """

def when_ready(server):
"""
GROUP = """\
    os.chown({socket!r}, -1, os.stat({run!r}).st_gid)
"""
DRAIN = """\
    # SIGTERM marks the site as one that is about to stop, for {site.drain} seconds. It still answers all requests,
    # but `health` says 503, so the proxies that ask send new ones elsewhere (R9). A second SIGTERM stops it now.
    stop = signal.getsignal(signal.SIGTERM)

    def drain(number, frame):
        signal.signal(signal.SIGTERM, stop)
        Path({site.mark!r}).touch()
        signal.signal(signal.SIGALRM, lambda number, frame: stop(signal.SIGTERM, frame))
        signal.alarm({site.drain})

    signal.signal(signal.SIGTERM, drain)
"""

STARTING = """

def on_starting(server):
"""
CLEAN = """\
    # What a process that was killed has left.
    for leftover in {leftovers!r}:
        Path(leftover).unlink(missing_ok=True)
"""
CLEAN_FIGURES = """\
    # The figures of processes that have ended are not those of this time.
    for file in Path(FIGURES).glob("*.db"):
        file.unlink()
"""
FIGURES = """
# For the element metrics: each process writes its figures there, and the one that is asked adds them up.
FIGURES = os.environ["PROMETHEUS_MULTIPROC_DIR"] = {figures!r}
Path(FIGURES).mkdir(parents=True, exist_ok=True)


def child_exit(server, worker):
    # The gauges of a process that has ended, such as its open connections, count no more.
    from prometheus_client import multiprocess

    multiprocess.mark_process_dead(worker.pid)
"""


def configuration_of(site: Site, directory: str, bind: str, pid: str, leftovers: Sequence[str]) -> str:
    """Return gunicorn's configuration for the script of a site in a directory."""
    prefix = f"# The path of the site on the server.\nraw_env = [{f'SCRIPT_NAME={site.prefix}'!r}]\n"
    in_group = site.behind_proxy and site.behind != "systemd"  # systemd makes the socket itself
    several = site.workers > 1 and any(told.shares_figures for _, told in site.facts)
    imports = "import os\n" if in_group or several else ""
    imports += "import signal\n" if site.drain else ""
    imports += "from pathlib import Path\n" if leftovers or several else ""
    starting = CLEAN.format(leftovers=leftovers) if leftovers else ""
    starting += CLEAN_FIGURES if several else ""
    group = GROUP.format(socket=str(site.socket), run=f"{directory}/run") if in_group else ""
    ready = group + (DRAIN.format(site=site) if site.drain else "")
    return CONFIGURATION.format(
        site=site,
        directory=directory,
        bind=bind,
        keepalive=1 if site.behind_proxy else 5,
        kept=": the proxy opens one for each request" if site.behind_proxy else "",
        pid=pid,
        prefix=prefix if site.prefix else "",
        imports=f"{imports}\n" if imports else "",
        umask=UMASK if in_group else "",
        ready=READY + ready if ready else "",
        figures=FIGURES.format(figures=f"{Path(pid).parent}/figures") if several else "",
        starting=STARTING + starting if starting else "",
    )


def write(site: Site) -> Deployment:
    """Write a configuration file and the script of the site."""
    need_module("gunicorn", "pip install 'wsgi-pipeline[gunicorn]'")
    program = need_program("gunicorn", "pip install 'wsgi-pipeline[gunicorn]'")
    directory = str(site.directory)
    pid = f"{directory}/run/gunicorn.pid"
    bind = f"unix:{site.socket}" if site.behind_proxy else site.address
    configuration = configuration_of(site, directory, bind, pid, site.leftovers)
    name = f"{directory}/gunicorn.conf.py"
    return Deployment(
        {**site.script, "gunicorn.conf.py": configuration},
        start=[f"{program} -c {name}"],
        stop=[f"kill -TERM $(cat {pid})"],
        reload=[f"{site.python} {directory}/wsgi.py && kill -HUP $(cat {pid})"],
        syntax=[program, "--check-config", "-c", name],
    )
