"""Every error that the pipeline raises, one class per situation.

PipelineError
|-- InvalidTopology       the topology breaks a rule; the message names the step
|-- ExpressionFailed      a row-wise expression fails on a record
|-- EventLogError         the event log is not what was promised (shrunk, odd file name)
|-- ConnectorUnavailable  Spark's Kafka connector can't be fetched
|-- CheckpointError       the checkpoint can't be used as it is
|-- RecordsMiscounted     a batch's records are not all accounted for, so it is not committed
|-- AlreadyRunning        another process runs the same pipeline on this data folder
|-- Fenced                another process has taken this pipeline over
`-- FilesFailed           a file can't be read or written: full disk, rights, a broken device
"""


class PipelineError(Exception):
    """Base of all errors of this package."""


class InvalidTopology(PipelineError):
    """A topology breaks a rule; the message names the step and the way out."""


class ExpressionFailed(PipelineError):
    """A row-wise expression fails on a record; the message names the store and the step."""


class EventLogError(PipelineError):
    """The event log broke its promise: append-only files named by partition number."""


class ConnectorUnavailable(PipelineError):
    """Spark's Kafka connector could not be fetched; the message says what was tried."""


class CheckpointError(PipelineError):
    """The checkpoint can't be used as it is; the message says why and what to do."""


class RecordsMiscounted(PipelineError):
    """A batch's records are not all accounted for: some would be lost, or used twice."""


class AlreadyRunning(PipelineError):
    """Another process holds this checkpoint: two writers would repeat each other's records."""


class Fenced(PipelineError):
    """Another process has taken over this pipeline; what it does counts, and nothing of ours."""


class FilesFailed(PipelineError):
    """A file can't be read or written: nothing is lost, and a start goes on when it can be."""
