"""The site of the documentation builds without warnings, loads no foreign files, and is served."""

import re
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest

from tests.storage.waiting import WAIT_SECONDS
from tests.tidy.project import ROOT
from tools.site import build_site, main, site_server


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the built site. A broken link fails the build."""
    directory = tmp_path_factory.mktemp("docs") / "site"
    build_site(directory)
    return directory


@pytest.mark.slow
def test_the_site_has_every_page(site: Path) -> None:
    """Each page of docs/ is a page of the site. A page that is not in the nav fails the build."""
    pages = {page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")}
    built = {page.relative_to(site).with_suffix(".md") for page in site.rglob("*.html")}
    missing = {page for page in pages if page.name not in {"README.md", "template.md"}} - built
    assert not missing
    assert (site / "decisions" / "index.html").exists()


@pytest.mark.slow
def test_links_upward_lead_to_pages_of_the_site_only(site: Path) -> None:
    """A page of a directory links to pages above it, and names files outside of the site."""
    assert 'href="../concepts/windows.html"' in (site / "reference" / "semantics.html").read_text()
    examples = (site / "get-started" / "examples.html").read_text()
    assert "demo/flights.py" in examples
    assert 'href="../demo' not in examples


@pytest.mark.slow
def test_citations_in_docstrings_are_links(site: Path) -> None:
    """A docstring cites a rule, and its link has the path from the page of the docstring."""
    citation = re.compile(r"\b(?:semantics|guarantees)\.md#")
    entries = {
        page.relative_to(site / "reference").as_posix(): page.read_text().partition(
            'class="doc doc-object'
        )[2]
        for page in (site / "reference").rglob("*.html")
    }
    assert not [name for name, text in entries.items() if citation.search(text)]
    for name, rule in (("streams", "1-2"), ("windows", "3-1"), ("joins", "5-2")):
        address = f'href="../semantics.html#{rule}"'
        assert address in entries[f"topology/{name}.html"], name


@pytest.mark.slow
def test_reads_of_the_client_have_lists_of_parameters(site: Path) -> None:
    """The methods of the stores are descriptors, and their sections are parsed as of functions."""
    page = (site / "reference" / "python-client.html").read_text()
    assert "Args:" not in page
    assert "&gt;&gt;&gt;" in page
    assert "<p>&gt;&gt;&gt;" not in page


def test_no_page_has_a_link_from_the_root() -> None:
    """Only docstrings have such links, because GitHub does not resolve them."""
    linked = re.compile(r"\]\(/")
    pages = (ROOT / "docs").rglob("*.md")
    assert not [page for page in pages if linked.search(page.read_text())]


@pytest.mark.slow
def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    """No page names a script, style, font or picture of another address, and no style does."""
    loading = re.compile(
        r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=\"?((?:https?:)?//[^\s\">]+)"
    )
    in_styles = re.compile(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\s\"')]+)")
    foreign = [
        f"{file.relative_to(site)}: {address}"
        for pattern, kinds in ((loading, ["*.html"]), (in_styles, ["*.html", "*.css"]))
        for kind in kinds
        for file in site.rglob(kind)
        for address in pattern.findall(file.read_text())
    ]
    assert not foreign
    # The theme's script would fetch these from elsewhere.
    assert not [page for page in site.rglob("*.html") if 'class="mermaid"' in page.read_text()]


def test_a_page_is_served(site: Path) -> None:
    """The server of `oriel docs` returns the pages and their search index, on loopback."""
    with site_server(site, 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        root = f"http://127.0.0.1:{server.server_port}"
        for path, part in (
            ("concepts/windows.html", '<h1 id="windows"'),
            ("search/search_index.json", "inactivity gap"),
        ):
            url = f"{root}/{path}"
            with urllib.request.urlopen(url, timeout=WAIT_SECONDS) as page:  # noqa: S310
                assert part in page.read().decode()
        server.shutdown()


def test_a_port_that_is_taken_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 1, and the message names the option to use."""
    monkeypatch.setattr("tools.site.build_site", lambda _directory: None)
    with site_server(tmp_path, 0) as taken:
        assert main(["--port", str(taken.server_port)]) == 1
    assert "is in use. Set another port with --port" in capsys.readouterr().err


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    """The command prints the page and the link, and its exit code is 1."""
    for name in ("tools", "docs"):
        (tmp_path / name).mkdir()
    for name in ("site.py", "site_hooks.py", "__init__.py"):
        (tmp_path / "tools" / name).write_text((ROOT / "tools" / name).read_text())
    config = (ROOT / "mkdocs.yml").read_text().split("nav:\n")[0]
    (tmp_path / "mkdocs.yml").write_text(config + "validation: { links: { not_found: warn } }\n")
    (tmp_path / "docs" / "index.md").write_text("# Start\n\n[on](nowhere.md)\n")
    done = subprocess.run(
        [sys.executable, "-m", "tools.site", "--build", str(tmp_path / "site")],
        cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1
    assert "contains a link 'nowhere.md'" in done.stderr
