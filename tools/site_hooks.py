"""Hooks of MkDocs for mkdocs.yml: links to files that are not in the site."""

import posixpath
import re
from typing import Any

_UPWARD = re.compile(r"\[([^\]]+)\]\((\.\./[^)\s]+)\)")


def on_page_markdown(markdown: str, *, page: Any, **_rest: Any) -> str:
    """Name a file of the repository that a page links to, because it has no address in the site."""
    directory = posixpath.dirname(page.file.src_uri)

    def in_site_or_named(link: re.Match[str]) -> str:
        text, target = link[1], posixpath.normpath(posixpath.join("docs", directory, link[2]))
        if target.startswith("docs/"):
            return link[0]
        return text if text == target else f"{text} (`{target}`)"

    return _UPWARD.sub(in_site_or_named, markdown)
