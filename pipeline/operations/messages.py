"""Print an error of a command in one line on stderr that says what to do."""

import sys

from deltalake.exceptions import DeltaError

from oriel.pipeline.errors import PipelineError
from oriel.storage import StorageError, disk_problem

#: Errors that an operator can fix. Other errors are bugs, and Python prints their traceback.
EXPECTED = (PipelineError, StorageError, OSError, DeltaError)


def print_error(command: str, error: BaseException) -> None:
    """Print the error that ended ``oriel COMMAND``.

    Raises:
        BrokenPipeError: The reader of stdout has ended, which is not an error of the command.
    """
    if isinstance(error, BrokenPipeError):
        raise error
    text = str(error)
    if isinstance(error, OSError | DeltaError):
        # Errors of libraries can have several lines.
        text = disk_problem(error) or text.partition("\n")[0]
    print(f"oriel {command}: {text}", file=sys.stderr)
