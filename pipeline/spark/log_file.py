"""The output of a run in files: messages of Java, Ivy, Spark and Python workers.

    LOGS/<name>.log    Spark's log, by log4j2, and stack traces of unexpected errors
    LOGS/<name>.out    stdout and stderr of processes: Ivy, the JVM, functions of users

Both are bounded. log4j2 limits the log, and a check every minute limits the other file.
"""

import os
import re
import shutil
import tempfile
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from oriel.storage import is_object

_FILE_CONFIGURATION = Path(__file__).resolve().with_name("log4j2-file.properties")

#: If a file of outputs exceeds this size, it starts again. One earlier file is kept.
_BYTES_MAX = 10 * 2**20
_CHECK_SECONDS = 60
#: The number of bytes at its end that are searched for the output of the last start.
_SEARCHED_BYTES = 64 * 2**10

#: The beginning of the line before the output of a start.
_START = "---- oriel run "
#: Lines without information of their own, in stack traces, in Ivy's reports, at each start.
_UNINFORMATIVE_LINE = re.compile(
    r"\s*(?:at |\.\.\. \d+ more|::|[-|:=]{3}|WARNING: Using|$)|.*\bCMD: bad array"
)


def log_directory(data: Path) -> Path:
    """Return the default directory for the logs of a run over ``data``.

    The directory is on this machine, also if the data is in an object store.
    """
    if is_object(data):
        return Path(tempfile.gettempdir()) / f"oriel-logs-{os.getuid()}"
    return data / "logs"


@dataclass(frozen=True)
class LogFile:
    """The two files of one run.

    Attributes:
        directory: The directory of the files. It is created with the first file.
        name: The name of the files without their suffix.
    """

    directory: Path
    name: str

    @property
    def log(self) -> Path:
        """The file of Spark's log."""
        return self.directory / f"{self.name}.log"

    @property
    def outputs(self) -> Path:
        """The file of the stdout and stderr of processes."""
        return self.directory / f"{self.name}.out"

    def missing_paths(self) -> list[Path]:
        """Return which files, and then the directory, do not exist."""
        return [path for path in (self.log, self.outputs, self.directory) if not path.exists()]

    def java_options(self, configuration: str) -> list[str]:
        """Return the options with which the JVM logs to the file.

        ``configuration`` is the configuration of log4j2 for stderr.
        """
        return [
            f"-Dlog4j2.configurationFile={configuration},{_FILE_CONFIGURATION.as_uri()}",
            # Quoted, because the name of the directory can contain spaces.
            f'"-Doriel.log={self.log.resolve()}"',
        ]

    def open_outputs(self) -> int:
        """Open ``outputs`` for the output of Java and its children, and return the descriptor."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.trim()
        file = os.open(self.outputs, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.write(file, f"{_START}{_time()}\n".encode())
        return file

    def trim(self) -> None:
        """Copy and empty ``outputs`` if it exceeds its limit. An earlier copy is replaced."""
        with suppress(FileNotFoundError):
            if self.outputs.stat().st_size > _BYTES_MAX:
                shutil.copyfile(self.outputs, f"{self.outputs}.1")
                # Not replaced, because processes keep it open and append to it.
                os.truncate(self.outputs, 0)

    def keep_trimmed(self) -> None:
        """Check every minute, until this process ends, whether ``outputs`` exceeds its limit."""

        def check() -> None:
            while True:
                time.sleep(_CHECK_SECONDS)
                # Code that needs the disk reports that it is full.
                with suppress(OSError):
                    self.trim()

        threading.Thread(target=check, name="trim-outputs", daemon=True).start()

    def last_start_output(self) -> str:
        """Return the output of the last start in ``outputs``, or only its end if it is long."""
        try:
            with self.outputs.open("rb") as file:
                file.seek(max(0, self.outputs.stat().st_size - _SEARCHED_BYTES))
                text = file.read().decode(errors="replace")
        except OSError:
            return ""
        return text.rpartition(_START)[2]

    def first_output_lines(self) -> str:
        """Return the first output of the last start, at most two lines. Empty without output."""
        lines = self.last_start_output().splitlines()[1:]
        lines_with_information = [
            line.strip() for line in lines if not _UNINFORMATIVE_LINE.match(line)
        ]
        return "; ".join(lines_with_information[:2])

    def write_trace(self, error: BaseException) -> None:
        """Append an error with its stack trace to the log."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.log.open("a", encoding="utf-8") as file:
            file.write(f"{_time()} ERROR oriel run\n")
            file.writelines(traceback.format_exception(error))


def _time() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
