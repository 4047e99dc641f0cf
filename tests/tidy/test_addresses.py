"""The files do not contain the name of this machine or its package registries."""

import re

from tests.tidy.project import offenders, texts

#: In parts, so that this file does not contain the names.
REGISTRIES = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("repo1", "maven", "org"),
        ("repo", "maven", "apache", "org"),
        ("npmjs", "org"),
        ("deb", "debian", "org"),
        ("proxy", "golang", "org"),
        ("crates", "io"),
    )
]
_MACHINE_PATH = re.compile(r"(?<![\w.~}])/(?:root|work|home|Users)/\w")


def test_no_registry_is_named() -> None:
    """The settings of pip and apt on the machine define the registries, so no file names one."""
    found = [f"{name}: {host}" for name, text in texts() for host in REGISTRIES if host in text]
    assert not found, f"name packages, not their registries:{offenders(found)}"


def test_no_path_of_one_machine() -> None:
    """Paths are relative to the project, or the user names them."""
    found = [
        f"{name}: {place.group()}..."
        for name, text in texts()
        for place in [_MACHINE_PATH.search(text)]
        if place
    ]
    assert not found, f"make these paths relative:{offenders(found)}"
