"""The dashboard: a page of plain ES modules (``files``) without anything from elsewhere.

The service gives the page the operations' paths as a module; in the browser the page asks the
service itself and hears of changes by Server-Sent Events. Below ``files`` are

    main.js   which view is shown, and how it hears of changes
    base/     elements, formats, requests, the address, live updates, windows of a key
    parts/    chart, timeline, table, search for keys, position, files to save
    views/    overview, wall, store, dead letters
    vendor/   uPlot 1.6.32 (MIT), which draws the chart
"""

from oriel.app.page.dashboard import dashboard_routes

__all__ = [
    "dashboard_routes",
]
