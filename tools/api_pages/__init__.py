"""Write the pages of the HTTP API from its operations and problems (``tools.openapi``)."""

from tools.api_pages.errors import error_page
from tools.api_pages.operations import api_page
from tools.api_pages.remedies import REMEDIES

__all__ = ["REMEDIES", "api_page", "error_page"]
