"""The shape of the status of pipelines and stores."""

from typing import Literal

from pydantic import Field

from oriel.app.contract.responses.models import Model

PipelineState = Literal["running", "starting", "stopped", "stuck", "retired"]


class PipelineStatus(Model):
    """The status of one pipeline. Times are in ms since the epoch."""

    pipeline: str = Field(examples=["orders"])
    state: PipelineState = Field(
        description="The pipeline is `starting` before its first batch. It is `stopped` if it "
        "ended, or wrote no status for 10 s. It is `stuck` if it had no batch for 5 min although "
        "records wait or the log does not respond. It is `retired` after `oriel retire`"
    )
    problem: str | None = Field(
        description="What is wrong and what to do. Null if nothing is wrong",
        examples=["Pipeline orders has not run since 2026-11-26 00:25:10 UTC. Start it."],
    )
    seen_ms: int = Field(description="When the pipeline last wrote its status")
    batch_ms: int | None = Field(description="End of the last batch. Null before the first batch")
    batches: int = Field(description="Batches since the pipeline started")
    records_per_second: float | None = Field(
        description="Records that the pipeline reads, as a mean over about 10 s. Null unless it is "
        "running, and for a token for some keys"
    )
    log_end_ms: int | None = Field(
        description="When the pipeline last read the end of its log. Null if it never did"
    )
    lag: int | None = Field(
        description="How much of the log the stores have not read, in `lag_unit`. Null if the "
        "pipeline does not run or read the log's end more than 20 s ago, and for a token for some "
        "keys"
    )
    lag_unit: Literal["records", "bytes"] = Field(
        description="records of Kafka topics, or bytes of an event log"
    )
    lag_ms: int | None = Field(
        description="Greatest difference between wall-clock time and stream time of a partition "
        "with unread records. 0 without unread records. Null if it is unknown"
    )
    stores: list[str] = Field(description="Stores that the pipeline writes")


class StorePartition(Model):
    """A partition of a topic that a store reads."""

    topic: str = Field(examples=["orders"])
    partition: int


class HeldBy(Model):
    """The partition that keeps windows from becoming final."""

    topic: str = Field(examples=["orders"])
    partition: int | None = Field(description="Null if no partition of the topic has a record")
    stream_time_ms: int | None = Field(description="Null if the partition has no record")


class StoreState(Model):
    """The status of one store. Times are in ms since the epoch."""

    store: str = Field(examples=["revenue"])
    pipeline: str | None = Field(
        description="The pipeline that writes the store. Null if no pipeline has reported it"
    )
    open_records: int | None = Field(
        description="Rows in the state. Null without a pipeline, and for a token for some keys"
    )
    state_bytes: int | None = Field(description="Size of the state. Null for a token for some keys")
    table_bytes: int | None = Field(
        description="Size of the table and its log, also of removed files. Null with object "
        "storage, and for a token for some keys"
    )
    files: int | None = Field(
        description="Files of the table, its log and the state. Null as for `table_bytes`"
    )
    lag: int | None = Field(description="As in `PipelineStatus`, for this store")
    lag_ms: int | None = Field(description="As in `PipelineStatus`, for this store")
    stream_time_ms: int | None = Field(
        description="Greatest stream time of a partition. Null before the first record"
    )
    held_by: HeldBy | None = Field(description="Null if windows wait for no partition")
    idle: list[StorePartition] = Field(description="Partitions that windows do not wait for")
    close_ms: int | None = Field(
        description="Every window that ends before this is final. Null before the first batch"
    )
    counters: dict[str, int] = Field(description="Running totals of records, as in `StoreDetail`")
    ready: bool = Field(description="Whether the service follows the store")
    problem: str | None = Field(description="Why it does not. Null if it does")


class StatusAnswer(Model):
    """The status of pipelines and stores."""

    time_ms: int = Field(description="When the service read the status")
    problem: str | None = Field(
        description="What is wrong with the service, as in `Readiness`. Null if nothing is wrong"
    )
    pipelines: list[PipelineStatus]
    stores: list[StoreState]


class TopologyNode(Model):
    """A topic, join, store or sink of a topology."""

    id: str = Field(description="Identifies the node within its topology", examples=["store0"])
    kind: Literal["topic", "join", "store", "sink"] = Field(
        description="`sink` is an output topic. `join` is also an aggregation without a store"
    )
    name: str = Field(
        description="Name of the topic or store, or the call of the join",
        examples=["departures"],
    )
    lines: list[str] = Field(description="Windows and steps of a store")


class TopologyArrow(Model):
    """Records that flow from one node to another."""

    source: str = Field(description="`id` of the first node", examples=["topic0"])
    target: str = Field(description="`id` of the second node", examples=["store0"])
    steps: list[str] = Field(description="Calls between the nodes")


class PipelineTopology(Model):
    """The topology of one pipeline."""

    pipeline: str = Field(examples=["flights"])
    started_ms: int = Field(description="When the pipeline started, in ms since the epoch")
    nodes: list[TopologyNode]
    arrows: list[TopologyArrow]
    mermaid: str = Field(description="The topology as a Mermaid flowchart")


class Topologies(Model):
    """The topologies of the pipelines."""

    pipelines: list[PipelineTopology]


class PipelineFreshness(Model):
    """Whether one pipeline writes new data."""

    state: PipelineState = Field(description="As in `PipelineStatus`")
    since_ms: int | None = Field(
        description="Since when it writes no new data, in ms since the epoch. Null if it writes"
    )
    problem: str | None = Field(
        description="Why it writes no new data, and what to do. Null if it writes"
    )


class Freshness(Model):
    """Whether new data arrives."""

    fresh: bool
    problem: str | None = Field(description="Why the service shows no new data. Null if it does")
    pipelines: dict[str, PipelineFreshness] = Field(
        description="Pipelines of the data directory. A retired pipeline does not change `fresh`"
    )
