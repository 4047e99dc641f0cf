"""Define an example response of each operation, for the OpenAPI document and its page.

All examples are about the stores ``departures`` (tumbling windows of 30 minutes), ``bursts``
(sessions with a gap of 10 minutes) and ``totals`` (no windows), which read the topic ``flights``.
A test compares them with responses of a service.
"""

from collections.abc import Mapping

import orjson

from oriel.app.contract.responses.models import Json

_POSITION: Json = {
    "version": 17,
    "offsets": {"flights": {"0": 12345}},
    "history": "1a2b3c4d-99aabbcc",
}
_WINDOW: Json = {
    "key": "EWR",
    "window_start_ms": 1357034400000,
    "window_end_ms": 1357036200000,
    "departures": 12,
    "mean_delay": 4.25,
    "timestamp_ms": 1357036140000,
    "final": True,
}
_ROW: Json = {"key": "EWR", "departures": 1201, "timestamp_ms": 1357036140000}
_KIND: Json = {"kind": "tumbling", "size_ms": 1800000, "grace_ms": 0, "advance_ms": None}
_AGGREGATES = [
    {"name": "departures", "function": "count()", "type": "long"},
    {"name": "mean_delay", "function": "avg(delay)", "type": "double"},
]
_SERIES: Json = {"__name__": "departures_departures", "key": "EWR", "store": "departures"}
_STREAM_TIME: Json = {"flights": {"0": 1357036140000}}
_COUNTERS: Json = {"input": 12345, "applied": 12340, "late": 4, "dead_lettered": 1, "filtered": 0}

WINDOWS_EXAMPLE: Json = {
    "store": "departures",
    "position": _POSITION,
    "windows": [_WINDOW],
    "next_cursor": None,
}
MERGED_EXAMPLE: Json = {
    "store": "departures",
    "position": _POSITION,
    "windows": [
        {
            "key": "EWR",
            "window_start_ms": 1357034400000,
            "window_end_ms": 1357038000000,
            "departures": 12,
            "timestamp_ms": 1357036140000,
            "final": False,
        }
    ],
    "next_cursor": None,
}
SESSIONS_EXAMPLE: Json = {
    "store": "bursts",
    "position": _POSITION,
    "windows": [{**_WINDOW, "window_end_ms": 1357036140000}],
    "next_cursor": None,
}
ROWS_EXAMPLE: Json = {
    "store": "totals",
    "position": _POSITION,
    "rows": [_ROW],
    "next_cursor": None,
}
VERSIONS_EXAMPLE: Json = {
    "store": "prices",
    "position": _POSITION,
    "rows": [
        {
            "key": "EWR",
            "price": 3,
            "timestamp_ms": 1357034400000,
            "valid_from_ms": 1357034400000,
            "valid_to_ms": None,
        }
    ],
    "next_cursor": None,
}
COUNT_EXAMPLE: Json = {"store": "totals", "position": _POSITION, "count": 1}

_FIRST_EVENT: Json = {
    "store": "departures",
    "position": {**_POSITION, "version": 16, "offsets": {"flights": {"0": 12340}}},
}
_CHANGE_EVENT: Json = {
    "store": "departures",
    "position": _POSITION,
    "windows": [_WINDOW],
    "removed": [],
}
_STREAM = (
    "event: position\n"
    "id: 16-1a2b3c4d-99aabbcc\n"
    f"data: {orjson.dumps(_FIRST_EVENT).decode()}\n\n"
    "event: change\n"
    "id: 17-1a2b3c4d-99aabbcc\n"
    f"data: {orjson.dumps(_CHANGE_EVENT).decode()}\n"
)

#: Example responses of the other operations, by name.
EXAMPLES: Mapping[str, Json | str] = {
    "listStores": {
        "stores": [
            {
                "store": "departures",
                "ready": True,
                "problem": None,
                "window": _KIND,
                "aggregates": _AGGREGATES,
                "position": _POSITION,
                "committed_ms": 1357036150000,
                "close_ms": 1357036140000,
                "stream_time_ms": _STREAM_TIME,
                "counters": _COUNTERS,
                "windows": 840,
            }
        ]
    },
    "describeStore": {
        "store": "departures",
        "definition": {
            "name": "departures",
            "topic": "flights",
            "grouped_by": "key",
            "window": _KIND,
            "aggregates": _AGGREGATES,
            "key_groups": 4,
            "retention_ms": None,
            "application": "flights",
            "emit": "window-update",
            "format": 3,
            "sources": ["flights: carrier STRING, delay INT"],
            "steps": [],
            "functions": [],
            "generation": 0,
            "key_type": "text",
            "mergeable": [],
        },
        "position": _POSITION,
        "committed_ms": 1357036150000,
        "stream_time_ms": _STREAM_TIME,
        "close_ms": 1357036140000,
        "counters": _COUNTERS,
        "earliest_start_ms": 0,
        "earliest_end_ms": None,
        "mergeable": ["departures"],
        "index": {"state": "following", "problem": None, "windows": 840},
    },
    "listKeys": {
        "store": "departures",
        "position": _POSITION,
        "keys": ["EWR", "JFK", "LGA"],
        "next_cursor": None,
    },
    "sql": {
        "positions": {"departures": _POSITION},
        "columns": [
            {"name": "key", "type": "VARCHAR"},
            {"name": "sum(departures)", "type": "HUGEINT"},
        ],
        "rows": [{"key": "EWR", "sum(departures)": 12}],
        "truncated": False,
    },
    "queryWindows": {
        "status": "success",
        "data": {
            "resultType": "vector",
            "result": [{"metric": _SERIES, "value": [1357036200, "12"]}],
        },
    },
    "queryWindowRange": {
        "status": "success",
        "data": {
            "resultType": "matrix",
            "result": [{"metric": _SERIES, "values": [[1357036200, "12"]]}],
        },
    },
    "findSeries": {"status": "success", "data": [_SERIES]},
    "listLabels": {"status": "success", "data": ["__name__", "key", "store"]},
    "listLabelValues": {"status": "success", "data": ["EWR"]},
    "listMetrics": {
        "status": "success",
        "data": {
            "departures_departures": [
                {
                    "type": "gauge",
                    "help": "count() of tumbling windows in store departures",
                    "unit": "",
                }
            ]
        },
    },
    "showBuild": {
        "status": "success",
        "data": {
            "version": "2.45.0",
            "revision": "",
            "branch": "",
            "buildUser": "",
            "buildDate": "",
            "goVersion": "",
        },
    },
    "health": {"status": "ok"},
    "readiness": {
        "ready": True,
        "tailer_alive": True,
        "problem": None,
        "stores": {"departures": {"ready": True, "problem": None}},
        "pipelines": {"flights": {"running": True, "seen_ms": 1357036150000, "problem": None}},
    },
    "freshness": {
        "fresh": True,
        "problem": None,
        "pipelines": {"flights": {"state": "running", "since_ms": None, "problem": None}},
    },
    "topology": {
        "pipelines": [
            {
                "pipeline": "flights",
                "started_ms": 1357036100000,
                "nodes": [
                    {"id": "topic0", "kind": "topic", "name": "flights", "lines": []},
                    {
                        "id": "store0",
                        "kind": "store",
                        "name": "departures",
                        "lines": ["sliding windows"],
                    },
                ],
                "arrows": [
                    {"source": "topic0", "target": "store0", "steps": ["group_by(origin)"]},
                ],
                "mermaid": 'flowchart LR\n    topic0[("flights")]\n'
                '    store0["departures<br>sliding windows"]\n'
                '    topic0 -->|"group_by(origin)"| store0\n',
            },
        ],
    },
    "status": {
        "time_ms": 1357036150500,
        "problem": None,
        "pipelines": [
            {
                "pipeline": "flights",
                "state": "running",
                "problem": None,
                "seen_ms": 1357036150000,
                "batch_ms": 1357036149500,
                "batches": 17,
                "records_per_second": 410.5,
                "log_end_ms": 1357036150000,
                "lag": 0,
                "lag_unit": "records",
                "lag_ms": 0,
                "stores": ["departures"],
            }
        ],
        "stores": [
            {
                "store": "departures",
                "pipeline": "flights",
                "open_records": 36,
                "state_bytes": 20480,
                "table_bytes": 1048576,
                "files": 312,
                "lag": 0,
                "lag_ms": 0,
                "stream_time_ms": 1357036140000,
                "held_by": None,
                "idle": [],
                "close_ms": 1357036140000,
                "counters": _COUNTERS,
                "ready": True,
                "problem": None,
            }
        ],
    },
    "metrics": '# TYPE oriel_pipeline_up gauge\noriel_pipeline_up{application="flights"} 1.0\n',
    "changes": {
        "store": "departures",
        "position": _POSITION,
        "changes": [
            {
                "version": 17,
                "key": "EWR",
                "window_start_ms": 1357034400000,
                "window_end_ms": 1357036200000,
                "row": _WINDOW,
            }
        ],
        "through_version": 17,
        "next_cursor": None,
        "through_history": "1a2b3c4d-99aabbcc",
    },
    "listDeadLetters": {
        "version": 3,
        "letters": [
            {
                "topic": "flights",
                "partition": 0,
                "offset": 4711,
                "reason": "not-json",
                "detail": "the value is not a JSON object",
                "revision": 9,
                "timestamp_ms": 1357034460000,
                "store": None,
                "key": {"encoding": "utf-8", "data": "EWR"},
                "headers": [],
                "value": {"encoding": "utf-8", "data": "{"},
                "replayed_ms": None,
                "repeats_offset": None,
            }
        ],
        "next_cursor": None,
    },
    "countDeadLetters": {
        "version": 3,
        "total": 4,
        "by_reason": {"not-json": 3, "wrong-type": 1},
        "repeats": 0,
    },
    "watch": _STREAM,
}
