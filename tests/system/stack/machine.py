"""A machine with systemd as its first process, in a container."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.system.stack.engine import CACHE, Engine
from tests.system.stack.images import build_image
from tests.system.stack.production import HOST
from tests.system.stack.waiting import wait_for
from tests.tidy.project import ROOT

_FILES = Path(__file__).with_name("image_files") / "machine"
#: The files that an installation from a checkout reads.
_CHECKOUT = (
    "LICENSE", "README.md", "app", "client", "demo", "docs", "monitoring", "pipeline",
    "pyproject.toml", "src", "stack", "storage",
)  # fmt: skip


class Machine:
    """A running machine, with a user ``root`` in a checkout of Oriel."""

    def __init__(self, engine: Engine, name: str) -> None:
        """Connect to the container of this name."""
        self._engine, self.name = engine, name

    def run(self, script: str) -> str:
        """Run a shell script as root and return its output. If it fails, fail."""
        code, output = self.attempt(script)
        assert code == 0, f"{script}\nfailed:\n{output}\n{self._journal()}"
        return output

    def attempt(self, script: str) -> tuple[int, str]:
        """Run a shell script as root, and return its exit code and its output."""
        done = subprocess.run(
            ["docker", "exec", self.name, "bash", "-euo", "pipefail", "-c", script],
            env=os.environ | self._engine.environment, check=False, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        return done.returncode, done.stdout

    def copy(self, source: Path | str, target: str) -> None:
        """Copy a file or the content of a directory into the machine."""
        self._engine.docker("cp", source, f"{self.name}:{target}")

    def _journal(self) -> str:
        return self.attempt("journalctl --no-pager --lines=40")[1]


def make_machine_image(engine: Engine, pipeline: str, packages: str, oriel: str) -> str:
    """Build the image of the machine and return its name.

    Args:
        engine: The engine that builds it.
        pipeline: The image of the pipeline.
        packages: Commands that install the packages. They stay a layer of the image, because
            the packages seldom change.
        oriel: Commands that install Oriel from the checkout.
    """
    image = "oriel-test-machine"
    with tempfile.TemporaryDirectory(dir=CACHE) as directory:
        context = Path(directory)
        shutil.copy(_FILES / "Dockerfile", context)
        for name in ("requirements-build.lock", "requirements-runtime.lock"):
            shutil.copy(ROOT / name, context)
        (context / "packages.sh").write_text(packages)
        (context / "oriel.sh").write_text(oriel)
        (context / "checkout").mkdir()
        for name in _CHECKOUT:
            source, target = ROOT / name, context / "checkout" / name
            if source.is_dir():
                unwanted = shutil.ignore_patterns("__pycache__")
                shutil.copytree(source, target, symlinks=True, ignore=unwanted)
            else:
                shutil.copy(source, target)
        build_image(engine, image, context, PIPELINE=pipeline)
    return image


@contextmanager
def running_machine(engine: Engine, image: str, network: str) -> Iterator[Machine]:
    """Start a machine in a network of containers, and wait until systemd has started."""
    name = "oriel-test-machine"
    engine.docker("rm", "--force", name)
    engine.docker(
        "run", "--detach", f"--name={name}", f"--network={network}", f"--add-host={HOST}:127.0.0.1",
        # systemd mounts file systems and creates control groups.
        "--cap-add=SYS_ADMIN", "--security-opt=seccomp=unconfined",
        "--security-opt=apparmor=unconfined", "--cgroupns=host",
        "--volume=/sys/fs/cgroup:/sys/fs/cgroup:rw", "--env=container=docker",
        "--tmpfs=/run", "--tmpfs=/run/lock", image,
    )  # fmt: skip
    machine = Machine(engine, name)
    try:
        wait_for(
            lambda: machine.attempt("systemctl is-system-running")[1],
            lambda state: state.strip() in {"running", "degraded"},
            "a started machine",
        )
        yield machine
    finally:
        engine.docker("rm", "--force", "--volumes", name)
