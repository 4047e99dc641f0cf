"""The fixture of the page, as in the default lane."""

from tests.app.conftest import page

__all__ = ["page"]
