"""The dashboard, a page of plain ES modules (``files``) that loads nothing from other servers.

The service provides the paths of the operations as a module. In the browser, the page sends
requests to the service and receives changes as Server-Sent Events. The directory ``files`` has

    main.js   the choice of the view, and its updates
    base/     elements, formats, requests, the address, live updates, windows of a key
    parts/    chart, timeline, table, search for keys, position, files to save
    views/    overview, wall, store, dead letters
    vendor/   uPlot 1.6.32 (MIT), which draws the chart
"""

from oriel.app.page.dashboard import dashboard_routes

__all__ = [
    "dashboard_routes",
]
