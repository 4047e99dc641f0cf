"""Define the models of all responses, for the cold routes and the OpenAPI document."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

Offsets = dict[str, dict[str, int]]

_COMMITTED = (
    "When the position's version was committed, in ms since the epoch. Null if its log entry was "
    "deleted, or if the table is in an object store"
)
_NEXT_CURSOR = "Send it as `cursor` to read the next page. Null on the last page"
_FOR_SOME_KEYS = "for a token for some keys"
_INDEXED = (
    "Windows or rows in the index, including expired ones until they are deleted. Null "
    f"{_FOR_SOME_KEYS}"
)


class Model(BaseModel):
    """Base of all models, which rejects undocumented fields."""

    model_config = ConfigDict(extra="forbid")


class Position(Model):
    """The table version and source offsets that the response contains."""

    version: int = Field(description="Version of the store's Delta table", examples=[17])
    offsets: Offsets = Field(
        description="Topic -> partition -> offset. Every record below the offset is included",
        examples=[{"flights": {"0": 12345}}],
    )
    history: str = Field(
        description="Identifies the history of the version. A restore of an older backup starts "
        "another history: its versions have the same numbers and other values here. Send it as "
        "`history` with the version, or `VERSION-HISTORY` as `after` of `watch`",
        examples=["1a2b3c4d-99aabbcc"],
    )


class Window(BaseModel):
    """One window of one key, with one more field per aggregate of the store.

    An aggregate is a number, string, boolean, array of such values, or null. NaN and infinities
    are null, because JSON does not have them. 64-bit integers keep all digits.
    """

    model_config = ConfigDict(extra="allow")

    key: str = Field(examples=["EWR"])
    window_start_ms: int = Field(description="Start, inclusive, in ms since the epoch")
    window_end_ms: int = Field(
        description="End in ms since the epoch. It is inclusive for sliding windows (KIP-450) "
        "and for sessions, where it is the time of the last record. It is exclusive for "
        "tumbling and hopping windows"
    )
    timestamp_ms: int = Field(
        description="Greatest record time in the window. For a session, its end (KIP-259)"
    )
    final: bool = Field(
        description="True if no record can change the window. Every partition's stream time "
        "minus grace has passed its end"
    )


class IsoWindow(BaseModel):
    """A `Window` with `times=iso`: times in ISO 8601 in UTC, with milliseconds."""

    model_config = ConfigDict(extra="allow")

    key: str = Field(examples=["EWR"])
    window_start: str = Field(examples=["2013-01-01T10:00:00.000Z"])
    window_end: str = Field(examples=["2013-01-01T10:30:00.000Z"])
    timestamp: str = Field(examples=["2013-01-01T10:29:00.000Z"])
    final: bool


class Row(BaseModel):
    """The row of one key in a store without windows, with one more field per aggregate.

    Aggregates have the values of a `Window`.
    """

    model_config = ConfigDict(extra="allow")

    key: str = Field(examples=["EWR"])
    timestamp_ms: int = Field(description="Greatest record time of the key (KIP-259)")


class IsoRow(BaseModel):
    """A `Row` with `times=iso`."""

    model_config = ConfigDict(extra="allow")

    key: str = Field(examples=["EWR"])
    timestamp: str = Field(examples=["2013-01-01T10:29:00.000Z"])


class Version(Row):
    """A version of the row of one key, with one more field per column."""

    timestamp_ms: int = Field(description="Time of the version's record")
    valid_from_ms: int = Field(description="Time from which the version is valid, inclusive")
    valid_to_ms: int | None = Field(
        description="Time of the next version or deletion, exclusive. Null for the newest version"
    )


class IsoVersion(IsoRow):
    """A `Version` with `times=iso`."""

    valid_from: str = Field(examples=["2013-01-01T10:29:00.000Z"])
    valid_to: str | None = Field(examples=["2013-01-01T10:31:00.000Z"])


class WindowsAnswer(Model):
    """Windows from one table version."""

    store: str = Field(examples=["departures"])
    position: Position
    windows: list[Window] | list[IsoWindow]
    next_cursor: str | None = Field(description=_NEXT_CURSOR)


class RowsAnswer(Model):
    """Rows of a store without windows, from one table version."""

    store: str = Field(examples=["totals"])
    position: Position
    rows: list[Row] | list[IsoRow]
    next_cursor: str | None = Field(description=_NEXT_CURSOR)


class VersionsResponse(Model):
    """Versions of rows of a store with versions, from one table version."""

    store: str = Field(examples=["prices"])
    position: Position
    rows: list[Version] | list[IsoVersion]
    next_cursor: str | None = Field(description=_NEXT_CURSOR)


class EntriesAnswer(RootModel[WindowsAnswer | RowsAnswer]):
    """Windows, or the rows of a store without windows."""


class Change(Model):
    """A window that changed, or the row of a key in a store without windows."""

    version: int = Field(description="Version of the table in which it last changed")
    key: str = Field(examples=["EWR"])
    window_start_ms: int | None = Field(description="Null in a store without windows")
    window_end_ms: int | None = Field(description="Null in a store without windows")
    row: Window | Row | None = Field(
        description="The window or row at the position of the response. Null if it was removed"
    )


class ChangesAnswer(Model):
    """Windows that changed since a version, by version, key, start and end."""

    store: str = Field(examples=["departures"])
    position: Position
    changes: list[Change]
    through_version: int = Field(
        description="Send it as `since_version` of the next request. The pages up to the one "
        "without `next_cursor` contain all changes up to this version",
        examples=[17],
    )
    through_history: str = Field(
        description="`history` of this version. Send it with `since_version`",
        examples=["1a2b3c4d-99aabbcc"],
    )
    next_cursor: str | None = Field(description=_NEXT_CURSOR)


class Bytes(Model):
    """Bytes, encoded for JSON."""

    encoding: Literal["utf-8", "base64"] = Field(
        description="utf-8: `data` is the bytes as a string. base64: the bytes are not UTF-8, "
        "and `data` encodes them (RFC 4648)"
    )
    data: str = Field(examples=['{"origin": 7}'])


class Header(Model):
    """A header of a Kafka message."""

    key: str | None
    value: Bytes | None


class DeadLetter(Model):
    """A record that a store could not use."""

    topic: str = Field(examples=["flights"])
    partition: int
    offset: int = Field(
        description="Offset of the record. For an event log, the byte position of the line"
    )
    store: str | None = Field(
        description="The store that cannot use the record. Null if no store can use it"
    )
    reason: str = Field(examples=["not-json"])
    detail: str = Field(description="Description of the reason")
    revision: int = Field(description="The batch that rejected the record")
    timestamp_ms: int | None = Field(description="Time of the record. Null if it is unknown")
    key: Bytes | None = Field(
        description="Key of the record. Null if it has no key or the key is unknown"
    )
    headers: list[Header] | None = Field(description="Null if the headers are unknown")
    value: Bytes = Field(description="Value of the record. For an event log, the whole line")
    replayed_ms: int | None = Field(
        description="Time at which `oriel dead-letters replay` sent the record again, in ms "
        "since the epoch. Null if the record was not replayed, 0 if an earlier version of Oriel "
        "replayed it",
        examples=[1767225600000],
    )
    repeats_offset: int | None = Field(
        description="If a replay wrote this record, the offset of its first dead letter in the "
        "same topic and partition. Null if no replay wrote it"
    )


class DeadLettersAnswer(Model):
    """Dead letters from one version of their table."""

    version: int | None = Field(
        description="Version of the dead-letter table. Null if it does not exist"
    )
    letters: list[DeadLetter]
    next_cursor: str | None = Field(description=_NEXT_CURSOR)


class DeadLetterCountsAnswer(Model):
    """The number of dead letters, in total and by reason."""

    version: int | None = Field(
        description="Version of the dead-letter table. Null if it does not exist"
    )
    total: int
    by_reason: dict[str, int] = Field(examples=[{"not-json": 3, "wrong-type": 1}])
    repeats: int = Field(
        description="Number of dead letters with a `repeats_offset`, because a replayed record "
        "failed again"
    )


class KeysAnswer(Model):
    """Keys of a store, in their order."""

    store: str
    position: Position
    keys: list[str]
    next_cursor: str | None = Field(description=_NEXT_CURSOR)


class SqlColumn(Model):
    """A column of the rows of a SQL query."""

    name: str = Field(examples=["key"])
    type: str = Field(description="Name of the type in DuckDB", examples=["VARCHAR"])


class SqlRows(Model):
    """The rows of a SQL query, with one field per column."""

    positions: dict[str, Position] = Field(description="Position of each store of the query")
    columns: list[SqlColumn]
    rows: list[dict[str, Any]] = Field(
        description="NaN and infinities are null. Times are ISO 8601 in UTC. A value of a type "
        "that JSON does not have is a string"
    )
    truncated: bool = Field(description="True if the query has more rows, which are cut")


class CountAnswer(Model):
    """The number of rows of a store without windows."""

    store: str
    position: Position
    count: int


class WindowKind(Model):
    """The window kind and its parameters."""

    kind: str = Field(
        description="tumbling, hopping, sliding, session, or none for a store with one row per key",
        examples=["sliding"],
    )
    size_ms: int = Field(
        description="Size of tumbling and hopping windows, time difference of sliding windows, "
        "or inactivity gap of sessions, in ms. 0 without windows"
    )
    grace_ms: int = Field(description="Grace of the windows in ms: how late a record can be")
    advance_ms: int | None = Field(
        description="Advance of hopping windows in ms. Null for other kinds"
    )


class Aggregate(Model):
    """One aggregate column."""

    name: str = Field(examples=["mean_delay"])
    function: str = Field(examples=["avg(delay)"])
    type: str = Field(description="Name of the type in Delta", examples=["double"])


class Definition(Model):
    """The definition of the store."""

    name: str
    topic: str
    grouped_by: str
    window: WindowKind
    aggregates: list[Aggregate]
    key_groups: int
    retention_ms: int | None = Field(
        description="Retention in ms, by window start, or by end for sessions. Null if all "
        "history is kept"
    )
    application: str
    emit: str = Field(
        description="window-update: rows are written at each change. window-close: a row is "
        "written once, when the window is final",
        examples=["window-update"],
    )
    format: int
    sources: list[str] | None = Field(
        description="Topics with their schemas. Null if an earlier version of Oriel wrote the "
        "table without them"
    )
    steps: list[str] | None = Field(
        description="Row-wise steps and joins of each input. The last entry, `rows`, has the "
        "steps after the aggregation"
    )
    functions: list[str] | None = Field(description="Names and schema of the user's functions")
    generation: int = Field(description="How often all rows or the whole state were replaced")
    key_type: str = Field(
        description="Type of the keys: text, long (64-bit integers in decimal), or composites of "
        "both as JSON arrays, with the type of each component",
        examples=["text", "long", "[text, long]"],
    )
    mergeable: list[str] = Field(
        description="Aggregates whose partial aggregates the rows keep (`mergeable=True`). Merged "
        "reads compute them exactly",
        examples=[["mean_delay"]],
    )


class StoreSummary(Model):
    """One store in the list."""

    store: str
    ready: bool = Field(description="Whether the store can be queried now")
    problem: str | None = Field(description="Why the store cannot be queried. Null if it can")
    window: WindowKind | None
    aggregates: list[Aggregate]
    position: Position | None
    committed_ms: int | None = Field(description=_COMMITTED)
    close_ms: int | None = Field(
        description="Every window that ends before this is final. Null before the first batch"
    )
    stream_time_ms: Offsets = Field(description="Topic -> partition -> greatest record time seen")
    counters: dict[str, int] = Field(
        description=f"Running totals of records, as in the detail. Empty {_FOR_SOME_KEYS}"
    )
    windows: int | None = Field(description=_INDEXED)


class StoresAnswer(Model):
    """All stores."""

    stores: list[StoreSummary]


class IndexDetail(Model):
    """The state of the index."""

    state: str = Field(
        description="State of the tailer for this store: opening, building, following, failed, "
        "or unknown if the tailer has not reported the store"
    )
    problem: str | None = Field(description="What failed. Null if nothing failed")
    windows: int | None = Field(description=_INDEXED)


class StoreDetail(Model):
    """The definition, position and state of one store."""

    store: str
    definition: Definition
    position: Position
    committed_ms: int | None = Field(description=_COMMITTED)
    stream_time_ms: Offsets = Field(description="Topic -> partition -> greatest record time seen")
    close_ms: int | None = Field(description="Every window that ends before this is final")
    counters: dict[str, int] = Field(
        description="Running totals of records. input = applied + late + dead_lettered + filtered. "
        "After a join of streams or tables, late_results and rejected_results count late and "
        "dead-lettered join results. table_records are the applied records that are rows of a "
        "lookup table. If records are flattened, elements are the flattened records: elements = "
        "elements_applied + elements_late + elements_dead_lettered + elements_filtered. "
        f"Empty {_FOR_SOME_KEYS}",
        examples=[{"input": 10, "applied": 8, "late": 1, "dead_lettered": 1, "filtered": 0}],
    )
    earliest_start_ms: int | None = Field(
        description="Windows that start before this have expired. Null for sessions and for "
        "stores without windows"
    )
    earliest_end_ms: int | None = Field(
        description="Sessions that end before this have expired. Null for other stores"
    )
    mergeable: list[str] = Field(
        description="Aggregates that `merged` can merge. Empty if the store does not have tumbling "
        "windows"
    )
    index: IndexDetail


class Health(Model):
    """Whether the process runs."""

    status: str = Field(examples=["ok"])


class StoreReadiness(Model):
    """Whether one store is served."""

    ready: bool
    problem: str | None


class PipelineReadiness(Model):
    """Whether one pipeline runs."""

    running: bool
    seen_ms: int = Field(description="When the pipeline last wrote its status, in ms")
    problem: str | None = Field(description="What to do. Null while the pipeline runs")


class Readiness(Model):
    """Whether the service is ready."""

    ready: bool
    tailer_alive: bool
    problem: str | None
    stores: dict[str, StoreReadiness]
    pipelines: dict[str, PipelineReadiness] = Field(
        description="Pipelines that write the stores. A pipeline that does not run does not change "
        "`ready`. Empty if the data directory is in an object store"
    )


class Problem(Model):
    """An error (RFC 9457). Programs use `code`, which never changes its meaning."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    owners: list[int] = Field(
        default=[],
        description="Only for `keys-of-several-shards`: the shard of each key, in the order of "
        "the list",
    )


Json = dict[str, Any]
