"""The commands of the pages about production, and the values of their placeholders in tests."""

import itertools
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.documentation.pages import RUN_BY, Block, blocks
from tests.system.stack.engine import run

#: The name of the service on the pages, which is also the name in the certificates here.
HOST = "oriel.example.org"
_HEADING = re.compile(r"^##+ (.+)$", re.MULTILINE)


class Step(NamedTuple):
    """Commands of a page, and the output that the page shows after them, or an empty string."""

    block: Block
    expected: str


@cache
def sections(page: Path) -> dict[str, list[Step]]:
    """Return the steps of each section of a page, in order, without sections that have no steps."""
    headings = [
        (page.read_text().count("\n", 0, match.start()) + 1, match[1])
        for match in _HEADING.finditer(page.read_text())
    ]
    found: dict[str, list[Step]] = {}
    for block, following in itertools.zip_longest(blocks(page), blocks(page)[1:]):
        if block.note.startswith(RUN_BY):
            shown = following is not None and following.language == "text"
            title = [title for line, title in headings if line < block.line][-1]
            found.setdefault(title, []).append(Step(block, following.text if shown else ""))
    return found


def run_section(
    page: Path, title: str, execute: Callable[[str], str], replaced: Mapping[str, str]
) -> str:
    """Run the steps of a section, and return the output of the last one.

    Args:
        page: The page.
        title: The heading of the section.
        execute: Runs a shell script and returns its output, or fails if the script fails.
        replaced: Placeholders of the page, and their values here.
    """
    output = ""
    for step in sections(page)[title]:
        output = execute(filled(step.block.text, replaced))
        _require_lines(step, output, replaced)
    return output


def filled(text: str, replaced: Mapping[str, str]) -> str:
    """Return a text with the page's placeholders replaced."""
    for placeholder, value in replaced.items():
        text = text.replace(placeholder, value)
    return text


def _require_lines(step: Step, output: str, replaced: Mapping[str, str]) -> None:
    """Compare each line that the page shows. `...` is any text, and a number is any number."""
    rest = output.splitlines()
    for line in filled(step.expected, replaced).splitlines():
        parts = [re.sub(r"\d+", r"\\d+", re.escape(part)) for part in line.split("...")]
        pattern = re.compile(".*".join(parts))
        found = next((number for number, one in enumerate(rest) if pattern.fullmatch(one)), None)
        assert found is not None, f"{step.block.place}: no line {line!r} in\n{output}"
        rest = rest[found + 1 :]


class Authority:
    """A certificate authority, whose certificates have the name ``HOST``."""

    def __init__(self, directory: Path) -> None:
        """Create its key and its certificate ``ca.pem``."""
        self.certificate, self._key = directory / "ca.pem", directory / "ca.key"
        _openssl("-subj=/CN=Tests", f"-keyout={self._key}", f"-out={self.certificate}")

    def issue(self, lineage: Path) -> str:
        """Write a certificate and its key as certbot names them. Return the serial number."""
        lineage.mkdir(parents=True, exist_ok=True)
        certificate = lineage / "fullchain.pem"
        _openssl(
            f"-subj=/CN={HOST}", f"-addext=subjectAltName=DNS:{HOST}",
            "-addext=basicConstraints=critical,CA:FALSE",
            f"-CA={self.certificate}", f"-CAkey={self._key}",
            f"-keyout={lineage / 'privkey.pem'}", f"-out={certificate}",
        )  # fmt: skip
        return serial_of(certificate.read_text())


def serial_of(certificate: str) -> str:
    """Return the serial number of a certificate in PEM."""
    from cryptography import x509  # noqa: PLC0415 - only these tests need it

    return str(x509.load_pem_x509_certificate(certificate.encode()).serial_number)


def _openssl(*options: str) -> None:
    words = [word for option in options for word in option.split("=", 1)]
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    run("openssl", "req", "-x509", *key, "-days", "30", *words)
