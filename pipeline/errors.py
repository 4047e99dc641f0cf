"""All errors of the pipeline, one class per situation. Each is a ``PipelineError``."""

from oriel.pipeline.windows import IllegalArgument


class PipelineError(Exception):
    """The base class of all errors of a pipeline.

    Example:
        >>> try:
        ...     builder.build()
        ... except PipelineError as error:
        ...     print(error)
        the topology has no store and no output topic. End an aggregation with ...
    """


class InvalidTopology(PipelineError, IllegalArgument):
    """Raised if a topology is invalid. The message names the step and the fix.

    Example:
        >>> try:
        ...     flights.filter(15)
        ... except InvalidTopology as error:
        ...     print(error)
        filter: an expression must be SQL text or a Spark Column, not 15
    """


class ExpressionFailed(PipelineError):
    """Raised if an expression fails on a record. The message names the store and the step."""


class FunctionRaised(PipelineError):
    """Raised if a user's function raises in the test driver.

    The message names the record, the store and the error of the function.

    Example:
        >>> def longer(kept, new):
        ...     return new if len(new["carrier"]) > len(kept["carrier"]) else kept
        >>> grouped = flights.map_values("carrier").group_by_key()
        >>> reduced = grouped.reduce(longer).materialize("longest_carrier")
        >>> driver = TopologyTestDriver(builder.build())
        >>> records = [Record("EWR", {"carrier": name}, 5) for name in ("UA", None)]
        >>> driver.pipe_input("flights", records)
        Traceback (most recent call last):
            ...
        oriel.pipeline.errors.FunctionRaised: topic 'flights', partition 0, offset 1: ...
    """


class EventLogError(PipelineError):
    """Raised if a file of the event log shrinks or has an invalid name."""


class ConnectorUnavailable(PipelineError):
    """Raised if Spark's Kafka connector cannot be downloaded. The message lists the attempts."""


class RegistryUnavailable(PipelineError):
    """Raised if the schema registry does not respond or rejects the client. No record is lost."""


class InvalidKafkaOption(PipelineError):
    """Raised if an option of Kafka's client is not allowed. The message contains no values."""


class KafkaUnavailable(PipelineError):
    """Raised if Kafka cannot be read. The message has the address, the reason and what to check."""


class RecordsLost(PipelineError):
    """Raised if Kafka deleted records before they were read. The message names their offsets."""


class CheckpointError(PipelineError):
    """Raised if the checkpoint cannot be used. The message has the reason and what to do."""


class BackupError(PipelineError):
    """Raised if a backup cannot be written or restored. The message has the reason."""


class JavaMissing(PipelineError):
    """Raised if Spark finds no Java on this machine."""

    def __init__(self, java_home: str | None) -> None:
        """Name the searched directories, and how to install Java."""
        where = "neither JAVA_HOME nor the PATH has it"
        if java_home:
            where = f"JAVA_HOME is {java_home}, which has no bin/java"
        super().__init__(
            f"Spark needs Java 17 or 21, and {where}. Install it (Debian: apt-get install "
            "openjdk-17-jre-headless) or set JAVA_HOME"
        )


class JavaExited(PipelineError):
    """Raised if the Java process of Spark ends during a run."""

    def __init__(self) -> None:
        """Name the possible reasons, and what to do."""
        super().__init__(
            "Java has ended: it was killed (dmesg shows if memory ran out) or it crashed. "
            "Nothing is lost. Start the pipeline again, and it continues where it stopped"
        )


class ClusterUnavailable(PipelineError):
    """Raised if the Spark cluster cannot be reached or its address is invalid."""


class DirectoryNotShared(PipelineError):
    """Raised if a machine of the cluster does not have a directory of the driver."""


class RecordCountMismatch(PipelineError):
    """Raised if a batch would lose a record or count it twice. The batch is not committed."""


class ReplayRejected(PipelineError):
    """Raised if dead letters cannot be listed or replayed with the given arguments."""


class StreamTimeRejected(PipelineError):
    """Raised if the stream time of a partition cannot be shown or set."""


class AlreadyRunning(PipelineError):
    """Raised if another process runs the same pipeline on this data directory."""


class Fenced(PipelineError):
    """Raised if another process has taken over this pipeline. This process can no longer commit."""


class FilesFailed(PipelineError):
    """Raised if a file cannot be read or written. No record is lost: fix the file and restart."""
