"""What MkDocs is told beside mkdocs.yml: links to files that are not in the site."""

import re
from typing import Any

_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./([^)\s]+)\)")


def on_page_markdown(markdown: str, **_page: Any) -> str:
    """Name a file of the repository that a page links to: it has no address in the site."""
    return _OUTSIDE.sub(
        lambda link: link[1] if link[1] == link[2] else f"{link[1]} (`{link[2]}`)", markdown
    )
