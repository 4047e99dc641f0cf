"""The documentation as a site: ``./oriel docs`` builds docs/ with MkDocs and serves it.

    ./oriel docs [--port 8000]          on this machine only, until Ctrl-C
    ./oriel docs --build FOLDER         into a folder, for a web server or to be read as files

A link that leads nowhere, or a page that no menu has, fails the build.
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
    """Build the site, and serve it unless it is for a folder; return the exit code.

    0: done, 1: the pages have a fault or the port is taken, in lines on stderr.
    """
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="oriel docs: %(message)s")
    try:
        if options.build is not None:
            build_site(options.build)
            return 0
        with TemporaryDirectory(prefix="oriel-docs-") as folder:
            build_site(Path(folder))
            with site_server(Path(folder), options.port) as server:
                print(f"Documentation: http://127.0.0.1:{server.server_port}/", flush=True)
                server.serve_forever()
    except Abort:
        return 1
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            reason = f"port {options.port} is taken, give another one with --port"
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
    parser.add_argument("--build", type=Path, metavar="FOLDER",
                        help="only write the site into this folder")  # fmt: skip
    parser.add_argument("--port", type=int, default=8000, help="port on 127.0.0.1 (default 8000)")
    return parser


def build_site(folder: Path) -> None:
    """Write the site into ``folder``, which is emptied before.

    Raises:
        Abort: a link or the menu is wrong; each fault is a line on stderr.
    """
    config = load_config(str(_ROOT / "mkdocs.yml"), site_dir=str(folder.resolve()), strict=True)
    config.plugins.run_event("startup", command="build", dirty=False)
    try:
        build(config)
    finally:
        config.plugins.run_event("shutdown")


def site_server(folder: Path, port: int) -> ThreadingHTTPServer:
    """A server of a built site on loopback; port 0 takes a free one."""
    handler = partial(_QuietHandler, directory=str(folder))
    return ThreadingHTTPServer(("127.0.0.1", port), handler)


class _QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_line: object) -> None:
        """No line for each file that a browser asks for."""


if __name__ == "__main__":
    # As Ctrl-C does, it leaves no folder behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
