"""Build the documentation as a site with MkDocs, and serve it: ``./oriel docs``.

    ./oriel docs [--port 8000]          serve on this machine only, until Ctrl-C
    ./oriel docs --build DIRECTORY      write files for a web server or a browser

The build fails if the target of a link does not exist, or if a page is not in the menu.
"""

import argparse
import errno
import logging
import signal
import sys
from collections.abc import Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

_ROOT = Path(__file__).parents[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the site, serve it unless ``--build`` is set, and return the exit code.

    The exit code is 1 if a page has an error or the port is in use. Messages are on stderr.
    """
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="oriel docs: %(message)s")
    try:
        if options.build is not None:
            build_site(options.build)
            return 0
        with TemporaryDirectory(prefix="oriel-docs-") as directory:
            build_site(Path(directory))
            with site_server(Path(directory), options.port) as server:
                print(f"Documentation: http://127.0.0.1:{server.server_port}/", flush=True)
                server.serve_forever()
    except Abort:
        return 1
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            reason = f"port {options.port} is in use. Set another port with --port"
        else:
            reason = str(error)
        print(f"oriel docs: {reason}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="oriel docs", description="Build the documentation as a site, and serve it."
    )
    parser.add_argument("--build", type=Path, metavar="DIRECTORY",
                        help="Write the site to this directory, and do not serve it.")  # fmt: skip
    parser.add_argument("--port", type=int, default=8000, help="Port on 127.0.0.1. Default: 8000.")
    return parser


def build_site(directory: Path) -> None:
    """Write the site into ``directory``, and delete the earlier files in it.

    Raises:
        Abort: a link or the menu is invalid. Each error is a line on stderr.
    """
    config = load_config(str(_ROOT / "mkdocs.yml"), site_dir=str(directory.resolve()), strict=True)
    config.plugins.run_event("startup", command="build", dirty=False)
    try:
        build(config)
    finally:
        config.plugins.run_event("shutdown")


def site_server(directory: Path, port: int) -> ThreadingHTTPServer:
    """Return a server of a built site on loopback. Port 0 selects a free port."""
    handler = partial(_QuietHandler, directory=str(directory))
    return ThreadingHTTPServer(("127.0.0.1", port), handler)


class _QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_line: object) -> None:
        """Log no requests."""


if __name__ == "__main__":
    # Delete the temporary directory, as after Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
