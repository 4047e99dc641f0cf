"""Names of Kafka Streams' test driver and stores, and what to write instead."""

from collections.abc import Mapping
from typing import ClassVar

from oriel.pipeline.windows import KafkaHints

_READ_RECORDS = "Write read_records(): a record has its key, value and timestamp_ms"
_READ_ROWS = "Write read_rows(): a row is a dict of the key, the columns and the time"
_OF_READERS = {
    **dict.fromkeys(("get_queue_size", "size"), "Write queue_size"),
    **dict.fromkeys(("skip", "clear"), "Read the records that you do not need"),
}
_READ_ONLY = dict.fromkeys(
    ("put", "put_all", "put_if_absent", "delete", "remove"),
    "Stores are read-only. Pipe records to fill them: pipe_input(topic, record)",
)
_WINDOWS = "Only windows have it. Use window_store(name) or session_store(name)"
_NO_WINDOWS = "Only stores without windows have it. Use key_value_store(name)"
#: Class -> name in Python's spelling -> what to write. ``{}`` is replaced by the name.
_NAME_HINTS: Mapping[str, Mapping[str, str]] = {
    "TopologyTestDriver": {
        "create_input_topic": "Write pipe_input(topic, record): topics need no object",
        **dict.fromkeys(
            ("pipe_record_list", "pipe_key_value_list", "pipe_value_list"),
            "Write pipe_input(topic, [Record(key, value, timestamp_ms), ...])",
        ),
        **dict.fromkeys(
            ("get_key_value_store", "get_timestamped_key_value_store"),
            "Write key_value_store(name)",
        ),
        **dict.fromkeys(
            ("get_window_store", "get_timestamped_window_store"), "Write window_store(name)"
        ),
        "get_session_store": "Write session_store(name)",
        "get_state_store": (
            "Write key_value_store(name), versioned_store(name), window_store(name) or "
            "session_store(name)"
        ),
        "get_versioned_key_value_store": "Write versioned_store(name)",
        "get_all_state_stores": "Write [store.name for store in topology.stores]",
        "metrics": "Write counters(store), late, dropped and dead_letters(store)",
        **dict.fromkeys(
            ("read_record", "read_output_topic"), "Write create_output_topic(topic).read_record()"
        ),
    },
    "StreamReader": {
        **_OF_READERS,
        **dict.fromkeys(
            (
                "read_key_value", "read_value", "read_records_to_list", "read_key_values_to_list",
                "read_values_to_list", "read_key_values_to_map", "read_row", "read_rows",
            ),
            _READ_RECORDS,
        ),
    },
    "OutputReader": {
        **_OF_READERS,
        **dict.fromkeys(
            (
                "read_key_value", "read_value", "read_records_to_list", "read_key_values_to_list",
                "read_values_to_list", "read_key_values_to_map", "read_record", "read_records",
            ),
            _READ_ROWS,
        ),
    },
    "DriverKeyValueStore": {
        **_READ_ONLY,
        **dict.fromkeys(("fetch", "fetch_all", "fetch_session", "find_sessions"), _WINDOWS),
    },
    "DriverVersionedStore": {
        **_READ_ONLY,
        **dict.fromkeys(("fetch", "fetch_all", "fetch_session", "find_sessions"), _WINDOWS),
    },
    "DriverWindowStore": {
        **_READ_ONLY,
        **dict.fromkeys(("get", "range", "prefix_scan"), _NO_WINDOWS),
    },
    "DriverSessionStore": {
        **_READ_ONLY,
        **dict.fromkeys(("get", "range", "prefix_scan"), _NO_WINDOWS),
        "fetch_all": "Write all()",
    },
}  # fmt: skip


class DriverHints(KafkaHints):
    """A class of the test driver that names the replacement for names of Kafka Streams."""

    _NAME_HINTS: ClassVar[Mapping[str, Mapping[str, str]]] = _NAME_HINTS
