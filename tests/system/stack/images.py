"""Replacements for the images of other projects, which the package registries do not serve.

The containers run the real programs: Python and Prometheus of Debian, Kafka of Maven's jars.
"""

import hashlib
import os
import re
import shutil
import tempfile
from pathlib import Path

from tests.locks import only_one
from tests.system.stack.engine import CACHE, Engine, run
from tests.tidy.project import ROOT

_IMAGES = Path(__file__).with_name("image_files")
_PACKAGES = "ca-certificates,python-is-python3,python3,python3-venv"
_CERTIFICATES = "usr/local/share/ca-certificates"
#: Variables with which programs find the certificates of this machine.
_CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_PIP_FILES = ("/etc/pip.conf", "~/.config/pip/pip.conf", "~/.pip/pip.conf")


def make_base_image(engine: Engine) -> str:
    """Build the image that the project's Dockerfile starts from, and return its name.

    It is a minimal Debian with Python, and with the settings with which this machine reaches
    package registries: certificates, pip, apt.
    """
    (name,) = map(
        str, re.findall(r"^FROM (\S+:\S+) AS", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    )
    suite = name.rpartition("-")[2]
    settings = {
        variable: value for variable, value in os.environ.items()
        if variable.startswith("PIP_") or variable in _CERTIFICATE_VARIABLES
    }  # fmt: skip
    pip = "\n".join(
        path.read_text() for path in (Path(file).expanduser() for file in _PIP_FILES)
        if path.exists()
    )  # fmt: skip
    apt = "".join(
        f"{line}\n" for line in run("apt-config", "dump").splitlines()
        if line.startswith("Acquire::") and not line.startswith("Acquire::IndexTargets")
    )  # fmt: skip
    recipe = hashlib.sha256(repr((suite, settings, pip, apt, _PACKAGES)).encode()).hexdigest()
    if engine.docker("image", "ls", "--quiet", f"--filter=label=recipe={recipe}", name).strip():
        return name
    # Its packages are from this machine's package source.
    mirror = run("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages")
    # On disk, because Debian cannot be installed where devices are forbidden, as is common in
    # memory.
    with tempfile.TemporaryDirectory(dir=CACHE) as directory:
        root = Path(directory) / "root"
        options = ["--variant=minbase", f"--include={_PACKAGES}"]
        run("debootstrap", *options, suite, root, mirror.splitlines()[0])
        shutil.copytree(Path("/") / _CERTIFICATES, root / _CERTIFICATES, dirs_exist_ok=True)
        run("chroot", root, "update-ca-certificates")
        run("chroot", root, "apt-get", "clean")
        (root / "etc/pip.conf").write_text(pip)
        (root / "etc/apt/apt.conf.d/90machine").write_text(apt)
        archive = Path(directory) / "base.tar"
        run("tar", "--create", f"--file={archive}", f"--directory={root}", ".")
        changes = [f'--change=ENV {variable}="{value}"' for variable, value in settings.items()]
        engine.docker("import", f"--change=LABEL recipe={recipe}", *changes, archive, name)
    return name


def fetch_broker_jars(image: str) -> Path:
    """Fetch the jars of Kafka in the version of an image's name, and return their directory."""
    version = image.rpartition(":")[2]
    pom = _IMAGES / "broker" / "pom.xml"
    jars = CACHE / f"jars-{hashlib.sha256(pom.read_bytes() + version.encode()).hexdigest()[:16]}"
    if not jars.exists():
        with tempfile.TemporaryDirectory(dir=CACHE) as directory, only_one("maven"):
            run(
                "mvn", "-q", "-B", f"--file={pom}", f"-Dkafka.version={version}",
                "dependency:copy-dependencies", f"-DoutputDirectory={directory}/jars",
            )  # fmt: skip
            (Path(directory) / "jars").rename(jars)
    return jars


def make_broker_image(engine: Engine, name: str, base: str, java: str) -> None:
    """Build an image of Kafka. It copies Java from the image ``java``."""
    with tempfile.TemporaryDirectory(dir=CACHE) as directory:
        shutil.copytree(_IMAGES / "broker", directory, dirs_exist_ok=True)
        shutil.copytree(fetch_broker_jars(name), Path(directory) / "jars", copy_function=os.link)
        build_image(engine, name, Path(directory), BASE=base, JAVA=java)


def make_prometheus_image(engine: Engine, name: str, base: str) -> None:
    """Build an image of Debian's Prometheus."""
    build_image(engine, name, _IMAGES / "prometheus", BASE=base)


def build_image(engine: Engine, name: str, directory: Path, **arguments: str) -> None:
    """Build an image from a directory with a Dockerfile."""
    options = [f"--build-arg={argument}={value}" for argument, value in arguments.items()]
    engine.docker("build", f"--tag={name}", *options, directory)
