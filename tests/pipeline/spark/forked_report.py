"""Print what a process has: `python -m tests.pipeline.spark.forked_report ARGUMENT ...`."""

import os
import sys
from pathlib import Path

import orjson

if __name__ == "__main__":
    read = sys.stdin.read()
    found = {
        "arguments": sys.argv[1:],
        "input": read,
        "directory": str(Path.cwd()),
        "variable": os.environ.get("FORKED_REPORT"),
        "has_tasks": "oriel.pipeline.tasks" in sys.modules,
        "descriptors": sorted(int(path.name) for path in Path("/proc/self/fd").iterdir())[:-1],
        "parent": os.getppid(),
        "title": Path("/proc/self/cmdline").read_bytes().rstrip(b"\0").decode(),
    }
    sys.stdout.write(orjson.dumps(found).decode())
    sys.stderr.write("to stderr")
    sys.exit(len(sys.argv[1:]))
