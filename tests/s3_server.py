"""An S3 server in memory, with moto: ``python s3_server.py PORT`` on the loopback address.

The server handles one request at a time. The check and the write of ``If-None-Match`` are therefore
one step. With concurrent requests, several writers could succeed.
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
