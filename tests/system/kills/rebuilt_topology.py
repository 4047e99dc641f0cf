"""A topology with a store that is rebuilt, and another store."""

from oriel import StreamsBuilder, avg, collect_list, count, sum
from tests.system.kills.kinds_topology import TOPIC, TOTALS, WINDOWS

STORE = "session_update"

_builder = StreamsBuilder()
_events = _builder.stream(TOPIC, "v DOUBLE, word STRING").group_by_key()
_sessions = _events.windowed_by(WINDOWS["session"])
_sessions.aggregate(n=count(), mean=avg("v"), all=collect_list("v")).materialize(STORE)
_events.aggregate(n=count(), total=sum("v")).materialize(TOTALS)
topology = _builder.build()
