"""Every error that the pipeline raises, one class per situation.

PipelineError
|-- InvalidTopology       the topology breaks a rule; the message names the step
|-- ExpressionFailed      a row-wise expression fails on a record
|-- FunctionRaised        a user's function raises on a record of the test driver
|-- EventLogError         the event log is not what was promised (shrunk, odd file name)
|-- ConnectorUnavailable  Spark's Kafka connector can't be fetched
|-- RegistryUnavailable   the schema registry does not answer, so a batch can't be read
|-- InvalidKafkaOption    an option of Kafka's client that can't be given
|-- KafkaUnavailable      the brokers don't answer, refuse the client, or lack a topic
|-- RecordsLost           records that were still to be read are gone from Kafka
|-- CheckpointError       the checkpoint can't be used as it is
|-- BackupError           a backup can't be written, or read back
|-- ClusterUnavailable    Spark's cluster gives no session
|-- FolderNotShared       a machine of the cluster lacks a folder that all must have
|-- RecordsMiscounted     a batch's records are not all accounted for, so it is not committed
|-- ReplayRefused         dead letters can't be sent again as asked
|-- ClockRefused          a partition's clock can't be set as asked
|-- AlreadyRunning        another process runs the same pipeline on this data folder
|-- Fenced                another process has taken this pipeline over
`-- FilesFailed           a file can't be read or written: full disk, rights, a broken device
"""

from oriel.pipeline.windows import IllegalArgument


class PipelineError(Exception):
    """Base of all errors of this package."""


class InvalidTopology(PipelineError, IllegalArgument):
    """A topology breaks a rule; the message names the step and the way out."""


class ExpressionFailed(PipelineError):
    """A row-wise expression fails on a record; the message names the store and the step."""


class FunctionRaised(PipelineError):
    """A user's function raised on a record of the test driver; the message names the record."""


class EventLogError(PipelineError):
    """The event log broke its promise: append-only files named by partition number."""


class ConnectorUnavailable(PipelineError):
    """Spark's Kafka connector could not be fetched; the message says what was tried."""


class RegistryUnavailable(PipelineError):
    """The schema registry gave no answer in time, or refused; nothing is decided or lost."""


class InvalidKafkaOption(PipelineError):
    """An option of Kafka's client that can't be given; never names a value."""


class KafkaUnavailable(PipelineError):
    """Kafka can't be read: the message says from where, why, and what to look at."""


class RecordsLost(PipelineError):
    """Records that were still to be read are gone: the message names topic and offsets."""


class CheckpointError(PipelineError):
    """The checkpoint can't be used as it is; the message says why and what to do."""


class BackupError(PipelineError):
    """A backup can't be written or read back; the message says why and what to do."""


class JavaMissing(PipelineError):
    """This machine has no Java where Spark looks for it."""

    def __init__(self, java_home: str | None) -> None:
        """Say where Java was looked for, and how to install it."""
        where = "neither JAVA_HOME nor the PATH has it"
        if java_home:
            where = f"JAVA_HOME is {java_home}, which has no bin/java"
        super().__init__(
            f"Spark needs Java 17 or 21, and {where}. Install it (Debian: apt-get install "
            "openjdk-17-jre-headless) or set JAVA_HOME"
        )


class JavaEnded(PipelineError):
    """Spark's Java process has ended in the middle of a run."""

    def __init__(self) -> None:
        """Say what may be the reason, and what to do."""
        super().__init__(
            "Java has ended: it was killed (dmesg shows if memory ran out) or it crashed. "
            "Nothing is lost. Start the pipeline again, and it continues where it stopped"
        )


class ClusterUnavailable(PipelineError):
    """Spark's cluster gives no session: it can't be reached, or its address is none."""


class FolderNotShared(PipelineError):
    """A machine of the cluster does not see a folder that the driver sees under the same path."""


class RecordsMiscounted(PipelineError):
    """A batch's records are not all accounted for: some would be lost, or used twice."""


class ReplayRefused(PipelineError):
    """Dead letters can't be listed or sent again as asked; the message says what to name."""


class ClockRefused(PipelineError):
    """A partition's clock can't be shown or set as asked; the message says why."""


class AlreadyRunning(PipelineError):
    """Another process holds this checkpoint: two writers would repeat each other's records."""


class Fenced(PipelineError):
    """Another process has taken over this pipeline; what it does counts, and nothing of ours."""


class FilesFailed(PipelineError):
    """A file can't be read or written: nothing is lost, and a start goes on when it can be."""
