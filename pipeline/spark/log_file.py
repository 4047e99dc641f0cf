"""Where a run's noise goes: what Java, Ivy, Spark and Python's workers say, in files.

    LOGS/<name>.log    Spark's log, by log4j2, and traces of errors that nobody expected
    LOGS/<name>.out    what processes write to stdout and stderr: Ivy, the JVM, users' functions

Both are bounded: the log by log4j2, the other by a look every minute.
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

#: From this size on a file of outputs begins anew; one of before is kept.
_MOST_BYTES = 10 * 2**20
_LOOK_SECONDS = 60
#: How much of its end is looked at for what a start said.
_END_BYTES = 64 * 2**10

#: Stands before what a start says.
_START = "---- oriel run "
#: Lines that say nothing by themselves: of traces, of Ivy's reports, of each start.
_NO_WORDS = re.compile(
    r"\s*(?:at |\.\.\. \d+ more|::|[-|:=]{3}|WARNING: Using|$)|.*\bCMD: bad array"
)


def log_folder(data: Path) -> Path:
    """Where the logs of a run over ``data`` are unless it is told: a folder of this machine."""
    if is_object(data):
        return Path(tempfile.gettempdir()) / f"oriel-logs-{os.getuid()}"
    return data / "logs"


@dataclass(frozen=True)
class LogFile:
    """The two files of one run; ``folder`` is made with the first that is written."""

    folder: Path
    name: str

    @property
    def log(self) -> Path:
        """Spark's log."""
        return self.folder / f"{self.name}.log"

    @property
    def outputs(self) -> Path:
        """What processes wrote to stdout and stderr."""
        return self.folder / f"{self.name}.out"

    def java_options(self, configuration: str) -> list[str]:
        """Options with which the JVM logs to the file; ``configuration`` is log4j2's for stderr."""
        return [
            f"-Dlog4j2.configurationFile={configuration},{_FILE_CONFIGURATION.as_uri()}",
            # Quoted, because the folder's name may hold spaces.
            f'"-Doriel.log={self.log.resolve()}"',
        ]

    def open_outputs(self) -> int:
        """Open ``outputs`` for the output of Java and its children, and return the descriptor."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.trim()
        file = os.open(self.outputs, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.write(file, f"{_START}{_time()}\n".encode())
        return file

    def trim(self) -> None:
        """Put ``outputs`` aside if it has grown; what was put aside before goes."""
        with suppress(FileNotFoundError):
            if self.outputs.stat().st_size > _MOST_BYTES:
                shutil.copyfile(self.outputs, f"{self.outputs}.1")
                # Not replaced: those who write to it, always at its end, hold it open.
                os.truncate(self.outputs, 0)

    def keep_trimmed(self) -> None:
        """Look every minute, for the rest of this process, whether ``outputs`` has grown."""

        def look() -> None:
            while True:
                time.sleep(_LOOK_SECONDS)
                # A full disk is told by who needs it.
                with suppress(OSError):
                    self.trim()

        threading.Thread(target=look, name="trim-outputs", daemon=True).start()

    def of_last_start(self) -> str:
        """Return what ``outputs`` has of the last start, or its end if that is long."""
        try:
            with self.outputs.open("rb") as file:
                file.seek(max(0, self.outputs.stat().st_size - _END_BYTES))
                text = file.read().decode(errors="replace")
        except OSError:
            return ""
        return text.rpartition(_START)[2]

    def first_words(self) -> str:
        """What ``outputs`` says of the last start: two lines at most, empty if there is none."""
        lines = self.of_last_start().splitlines()[1:]
        said = [line.strip() for line in lines if not _NO_WORDS.match(line)]
        return "; ".join(said[:2])

    def write_trace(self, error: BaseException) -> None:
        """Put all that is known about an error at the end of the log."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log.open("a", encoding="utf-8") as file:
            file.write(f"{_time()} ERROR oriel run\n")
            file.writelines(traceback.format_exception(error))


def _time() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
