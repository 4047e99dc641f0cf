"""Machines made of Linux namespaces, with a shared network and their own users and directories.

A machine has a name that the others resolve, an address of the loopback device, its own ``/etc``,
and empty ``/opt``, ``/srv``, ``/tmp``, ``/var/lib``, ``/var/log`` and ``/run``. Nothing remains
after a test, because the kernel ends all processes and mounts with the first process of the
network. The machines need root.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.storage.waiting import WAIT_SECONDS, wait_until
from tests.system.networks import inside_network

_PROGRAMS = ("unshare", "nsenter", "setpriv", "useradd", "mount", "ip", "hostname")

#: The first process of the network. All others end with it.
_NETWORK = "ip link set lo up; echo ready; exec cat"
#: Creates the mounts of a machine. Arguments: its name, the lines of /etc/hosts, and directories
#: that every user can enter. Such a directory is mounted again at its own path. Empty directories
#: replace its parents that only root can enter, for example /root.
_MACHINE = r"""
set -eu
hostname "$1"
hosts=$2
shift 2
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /mnt
cp -a /etc /mnt/etc
printf '%s\n' "$hosts" > /mnt/etc/hosts
number=0
for needed; do
    number=$((number + 1))
    mkdir "/mnt/$number"
    mount --bind "$needed" "/mnt/$number"
done
mount --bind /mnt/etc /etc
for empty in /opt /srv /var/lib /var/log /run; do
    mount -t tmpfs -o mode=755 tmpfs "$empty"
done
mount -t tmpfs -o mode=1777 tmpfs /tmp
mkdir -p /var/lib/nginx /var/log/nginx
number=0
for needed; do
    number=$((number + 1))
    above=
    for part in $(dirname "$needed" | tr / ' '); do
        above="$above/$part"
        case $(stat -c %A "$above" 2> /dev/null) in
            '' | *x | *t) ;;
            *) mount -t tmpfs -o mode=755 tmpfs "$above" ;;
        esac
    done
    mkdir -p "$needed"
    mount --bind "/mnt/$number" "$needed"
done
mkdir -m 1777 /srv/groups
echo ready
exec cat
"""


def require_machines(*programs: str) -> None:
    """Skip the test if machines cannot exist here or a program is missing. In CI, fail."""
    missing = [name for name in (*_PROGRAMS, *programs) if shutil.which(name) is None]
    if sys.platform != "linux" or os.geteuid() != 0:
        reason = "only root on Linux can make machines of namespaces"
    elif missing:
        reason = f"not found: {', '.join(missing)}"
    else:
        return
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@dataclass(frozen=True)
class Started:
    """A command that runs on a machine until it is stopped."""

    machine: "Machine"
    name: str
    log: Path
    process: "subprocess.Popen[bytes]"

    def printed(self) -> str:
        """Return all output of the command."""
        return self.log.read_text(errors="replace")

    def wait_for(self, words: str) -> None:
        """Wait until the command prints ``words``."""
        wait_until(self.printed, words, lambda text: words in text, process=self.process)

    def stop(self) -> int:
        """Send SIGTERM to all its processes, as systemd does. Return the exit code."""
        group = (self.machine.root / "srv" / "groups" / self.name).read_text().strip()
        self.machine.run(f"kill -TERM -- -{group}")
        return self.process.wait(2 * WAIT_SECONDS)


@dataclass(frozen=True)
class Machine:
    """A machine, identified by the process that owns its namespaces."""

    name: str
    holder: "subprocess.Popen[bytes]"
    environment: Mapping[str, str] = field(default_factory=dict)
    #: The commands that were started on any of the machines.
    started: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    @property
    def root(self) -> Path:
        """Return the path of its files for this process."""
        return Path(f"/proc/{self.holder.pid}/root")

    def _command(self, script: str, user: str) -> list[str]:
        spaces = f"/proc/{self.holder.pid}/ns"
        enter = [f"--mount={spaces}/mnt", f"--uts={spaces}/uts", f"--net={spaces}/net"]
        enter.append(f"--pid={spaces}/pid_for_children")
        become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
        # A service manager or a login sets HOME in the same way.
        become += ["env", f"HOME=/var/lib/{user}"]
        return [
            "nsenter", *enter, *(become if user != "root" else []), "setsid", "--wait",
            "bash", "-euo", "pipefail", "-c", f"cd /srv\n{script}",
        ]  # fmt: skip

    def run(self, script: str, user: str = "root", code: int = 0) -> str:
        """Run a script in ``/srv`` and return its output."""
        ended = subprocess.run(
            self._command(script, user), env=self.environment, check=False, capture_output=True,
            text=True, stdin=subprocess.DEVNULL, timeout=4 * WAIT_SECONDS,
        )  # fmt: skip
        shown = f"{self.name}: {script}\n{ended.stdout[-4000:]}\n{ended.stderr[-4000:]}"
        assert ended.returncode == code, shown
        return ended.stdout

    def start(self, script: str, user: str, log: Path) -> Started:
        """Start a script whose last command keeps running."""
        # The shell outlives the signal, so that it returns the exit code of the command.
        traced = f"trap : TERM\necho $$ > /srv/groups/{log.stem}\n{script}"
        with log.open("wb") as output:
            process = subprocess.Popen(
                self._command(traced, user), env=self.environment, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output,
            )  # fmt: skip
        self.started.append(process)
        return Started(self, log.stem, log, process)


@dataclass(frozen=True)
class Machines:
    """Machines on one network, by name."""

    network: Path
    by_name: Mapping[str, Machine]

    def __getitem__(self, name: str) -> Machine:
        return self.by_name[name]

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Connect from inside the network, including processes that the block starts.

        The code of the block must not leave threads, because they would stay in the network.
        """
        with inside_network(self.network):
            yield


@contextmanager
def running_machines(
    addresses: Mapping[str, Sequence[str]],
    names: Sequence[str],
    needed: Sequence[Path],
    environment: Mapping[str, str],
) -> Iterator[Machines]:
    """Yield machines, which end with the block.

    Args:
        addresses: The names of each address, as in ``/etc/hosts``.
        names: The machines.
        needed: Directories that all users of the machines can enter.
        environment: The variables of all commands.
    """
    started: list[subprocess.Popen[bytes]] = []
    with ExitStack() as exits:
        # This runs after the kernel has ended the processes with the network.
        exits.callback(lambda: [process.wait() for process in started])
        network = exits.enter_context(_holder(
            "unshare", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", _NETWORK,
        ))  # fmt: skip
        spaces = f"/proc/{network.pid}/ns"
        lines = [f"{address} {' '.join(known)}" for address, known in addresses.items()]
        made = {}
        for name in names:
            holder = exits.enter_context(_holder(
                "unshare", "--mount", "--propagation", "private", "--uts",
                "nsenter", f"--net={spaces}/net", f"--pid={spaces}/pid_for_children",
                "sh", "-c", _MACHINE, "sh", name, "\n".join(lines), *map(str, needed),
            ))  # fmt: skip
            made[name] = Machine(name, holder, environment, started)
        yield Machines(Path(f"{spaces}/net"), made)


@contextmanager
def _holder(*command: str) -> Iterator["subprocess.Popen[Any]"]:
    """Run a process that ends with the block, or at the latest with this thread."""
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", *command],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        # Ctrl-C is for the tests, which then end this process.
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = process.stdout.readline()
        assert line == b"ready\n", process.stderr.read().decode()
        yield process
    finally:
        process.kill()
        process.communicate()
