"""A container without Docker: the steps of a Dockerfile, run in a root directory and in namespaces of Linux.

The programs are those of this machine, bound read-only, and ``FROM python`` is its Python. What pip installs is in
the directory ``wheels`` of the project, so nothing is downloaded.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from servers.base import children, find, wait_until

SYSTEM = ("bin", "lib", "lib32", "lib64", "sbin", "usr", "dev")
"""Directories of this machine that an image has."""
OF_ETC = (
    "group",
    "hosts",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "login.defs",
    "nsswitch.conf",
    "passwd",
    "shadow",
)
UP = "import fcntl, socket, struct; fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sH14x', b'lo', 73))"
"""Turns the loopback interface of a new network on."""


def can_be() -> bool:
    """Whether this machine lets us make namespaces."""
    words = ["unshare", "--mount", "--net", "--pid", "--fork", "true"]
    return shutil.which("unshare") is not None and not subprocess.run(words, capture_output=True).returncode


class Container:
    """The image of a Dockerfile, and the one container that is run of it.

    Nothing of this machine is in it but its programs, and what COPY took from the context.
    """

    def __init__(self, dockerfile: Path, context: Path, place: Path, environ: dict[str, str]) -> None:
        self.place = place
        """The directory with a root for each stage."""
        self.stages: dict[str, Path] = {}
        self.of_build = environ
        """What ``docker build --build-arg`` gives to each RUN."""
        self.context = place / "context"
        shutil.copytree(context, self.context, ignore=ignoring(dockerfile, context, place), symlinks=True)
        for name, text in instructions(dockerfile.read_text()):
            self.build(name, text)

    def begin(self, text: str) -> None:
        """Begin a stage: an empty root with the Python of this machine."""
        self.root = self.place / f"root{len(self.stages)}"
        self.stages[text.partition(" AS ")[2]] = self.root
        self.environ = {"PATH": "/opt/python:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
        self.user = "root"
        self.workdir = "/"
        self.said: dict[str, str] = {}
        """Instructions that say how a container is run, by name."""
        self.process: subprocess.Popen[bytes] | None = None
        for name in ("etc", "tmp", "proc", "var", "run", "opt/python"):
            (self.root / name).mkdir(parents=True)
        (self.root / "opt/python/python").symlink_to("/usr/bin/python3")
        for name in OF_ETC:
            if (place := Path("/etc", name)).is_dir():
                shutil.copytree(place, self.root / "etc" / name)
            elif place.exists():
                shutil.copy(place, self.root / "etc")

    def inside(self, path: str | Path) -> Path:
        """Return where a path of the container is on this machine."""
        return self.root / str(path).lstrip("/")

    def build(self, name: str, text: str) -> None:
        """Run one instruction of the Dockerfile."""
        if name == "FROM":
            self.begin(text)
        elif name == "ENV":
            for word in shlex.split(text):
                variable, _, value = word.partition("=")
                self.environ[variable] = value.replace("$PATH", self.environ["PATH"])
        elif name == "RUN":
            self.run(["/bin/sh", "-c", text])
        elif name == "WORKDIR":
            self.workdir = text
            self.inside(text).mkdir(parents=True, exist_ok=True)
        elif name == "COPY":
            self.copy(*text.split())
        elif name == "USER":
            self.user = text
        else:
            known = ("ARG", "LABEL", "VOLUME", "EXPOSE", "HEALTHCHECK", "STOPSIGNAL", "ENTRYPOINT")
            assert name in known, name
            if self.stages:
                self.said[name] = text

    def copy(self, *words: str) -> None:
        """Copy a file or the content of a directory, from the context or from an earlier stage."""
        stage, source, target = words if len(words) == 3 else ("", *words)
        root = self.stages[stage.removeprefix("--from=")] if stage else self.context
        found = root / source.lstrip("/")
        if found.is_dir():
            shutil.copytree(found, self.inside(target), symlinks=True, dirs_exist_ok=True)
        else:
            shutil.copy(found, self.inside(target))

    def script(self, command: Sequence[str], *, running: bool = False) -> list[str]:
        """Return the command that binds everything in a namespace of its own, and runs ``command`` there.

        A container that is running can write to /tmp and to its volume alone, and has processes of its own.
        """
        root = self.root
        lines = ["set -e"]
        if running:
            lines += [
                f"mount --bind {root} {root}",
                f"mount -t tmpfs tmpfs {root}/tmp",
                f"mount -t proc proc {root}/proc",
            ]
        for place in (Path("/", name) for name in SYSTEM):
            if place.is_dir():
                lines += [f"mkdir -p {self.inside(place)}", f"mount --rbind {place} {self.inside(place)}"]
                if place != Path("/dev"):
                    lines.append(f"mount -o remount,bind,ro {self.inside(place)}")
        lines.append(f"mount -t tmpfs -o mode=1777 tmpfs {root}/dev/shm")  # its own, as in every container
        if running:
            volumes = [self.inside(volume) for volume in self.said["VOLUME"].split()]
            lines += [f"mount --bind {volume} {volume}" for volume in volumes]
            lines.append(f"mount -o remount,bind,ro {root}")
            lines.append(f"/usr/bin/python3 -c {shlex.quote(UP)}")
        words = shlex.join([*self.as_user(), *command])
        lines.append(f"exec chroot {root} /bin/sh -c {shlex.quote(f'cd {self.workdir} && exec {words}')}")
        return ["/bin/sh", "-c", "\n".join(lines)]

    def as_user(self) -> list[str]:
        if self.user == "root":
            return []
        user, _, group = self.user.partition(":")
        return ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups"]

    def run(self, command: Sequence[str]) -> None:
        """Run a step of the build."""
        words = ["unshare", "--mount", *self.script(command)]
        environ = self.environ | self.of_build
        done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"

    def start(self, output: Path) -> None:
        """Run the container, with a network of its own."""
        script = self.script(json.loads(self.said["ENTRYPOINT"]), running=True)
        with output.open("wb") as file:
            self.process = subprocess.Popen(
                ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", *script],
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        self.pid: int = wait_until(lambda: children(self.unshare.pid)[:1], 20, "the container has a process")[0]

    @property
    def unshare(self) -> subprocess.Popen[bytes]:
        assert self.process is not None
        return self.process

    def in_it(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs ``command`` in the running container, as its user."""
        words = [f"--target={self.pid}", "--mount", "--net", "--pid", "--root", f"--wd={self.inside(self.workdir)}"]
        return [find("nsenter", "apt install util-linux"), *words, "--", *self.as_user(), *command]

    def healthy(self) -> bool:
        """Run the command of HEALTHCHECK; return whether it says that the container is healthy."""
        text = self.said["HEALTHCHECK"]
        command = json.loads(text[text.index("CMD") + 3 :])
        return not subprocess.run(self.in_it(command), env=self.environ, capture_output=True).returncode

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()  # --kill-child ends the rest
            self.process.wait()


def ignoring(dockerfile: Path, context: Path, place: Path) -> Callable[[str, list[str]], list[str]]:
    """Return what copies no file that Dockerfile.dockerignore names, nor the place of this container."""
    lines = [line for line in dockerfile.with_name("Dockerfile.dockerignore").read_text().splitlines() if line]
    rules = [(line[0] != "!", pattern(line.lstrip("!"))) for line in lines if line[0] != "#"]

    def is_out(path: Path) -> bool:
        """The last line counts that names a path or a directory above it."""
        ways = [str(one) for one in (path, *path.parents[:-1])]
        told = [out for out, rule in rules if any(map(rule.fullmatch, ways))]
        return bool(told and told[-1])

    def leads_in(directory: Path) -> bool:
        above = f"!{directory.relative_to(context)}/"
        return any(line.startswith(above) for line in lines)

    def ignored(directory: str, names: list[str]) -> list[str]:
        found = []
        for name in names:
            path = Path(directory, name)
            if path == place or (is_out(path.relative_to(context)) and not (path.is_dir() and leads_in(path))):
                found.append(name)
        return found

    return ignored


def pattern(line: str) -> re.Pattern[str]:
    """Return the regular expression of a line: ``**/`` is any directory, ``**`` anything, ``*`` a part of a
    name."""
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}
    return re.compile("".join(words.get(part) or re.escape(part) for part in re.split(r"(\*\*/|\*\*|\*)", line)))


def instructions(text: str) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile, each with its text in one line."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    joined = re.sub(r"\s*\\\n\s*", " ", "\n".join(lines))
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in joined.splitlines())]
