"""An S3 server over memory, by moto: ``python s3_server.py PORT`` on the loopback address.

It answers one request after the other, so looking whether a name is there and putting it are one
step, as ``If-None-Match`` asks; servers that look and then write have several winners.
"""

import logging
import sys

from moto.server import (  # type: ignore[import-not-found]
    DomainDispatcherApplication,
    create_backend_app,
)
from werkzeug.serving import run_simple

if __name__ == "__main__":
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application = DomainDispatcherApplication(create_backend_app)
    run_simple("127.0.0.1", int(sys.argv[1]), application, threaded=False)
