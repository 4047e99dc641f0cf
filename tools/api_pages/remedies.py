"""Describe the cause of each problem code, and what a client does about it.

The page docs/reference/error-codes.md lists these texts.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Remedy(NamedTuple):
    """The cause of a problem, and what to do."""

    cause: str
    action: str


def _by_code(**remedies: Remedy) -> Mapping[str, Remedy]:
    return {name.replace("_", "-"): remedy for name, remedy in remedies.items()}


#: The remedy of each problem code.
REMEDIES = _by_code(
    invalid_parameter=Remedy(
        "A parameter cannot be read, is out of its range, or appears twice.",
        "Correct the parameter that `detail` names. For example, `limit` must be an integer from "
        "1 to 10,000.",
    ),
    unknown_parameter=Remedy(
        "The operation does not have this parameter. For example, `from` instead of `from_ms`.",
        "Use one of the parameters that `detail` lists.",
    ),
    query_not_computable=Remedy(
        "A PromQL query selects more windows, series or values than a limit, or several series of "
        "an operand have the same labels.",
        "Select fewer keys, a shorter time range or a greater step. For equal labels, select one "
        "metric, aggregate the operand, or use `on(...)` or `ignoring(...)`.",
    ),
    invalid_sql=Remedy(
        "DuckDB cannot parse or run the SQL query, or the query does more than read stores.",
        "Correct the part that `detail` names. A query must be one SELECT statement, and must "
        "read stores by their names. See [what a client can "
        "do](security.md#sql-queries).",
    ),
    sql_limit=Remedy(
        "A SQL query exceeds `sql_seconds`, needs more memory or temporary files than its limit, "
        "or its response has more than 16 MiB.",
        "Add conditions, aggregate, or select fewer columns.",
    ),
    sql_busy=Remedy(
        "The worker already runs `sql_queries` SQL queries.",
        "Send the query again after the seconds of `Retry-After`, or set a higher "
        "`--limit-sql-queries`.",
    ),
    sql_disabled=Remedy(
        "The service runs without `--sql`.",
        "Start the service with `oriel serve --sql`.",
    ),
    sql_failed=Remedy(
        "The process of the SQL query ended without a result. For example, the system had no "
        "free memory.",
        "Send the query again, or select less. The log of the service has the exit code.",
    ),
    ranked_read_limit=Remedy(
        "A read with `order_by` has to read more than 2,000,000 windows or rows, or the items of "
        "`top` have more than 4 MiB.",
        "Send narrower bounds of keys or times. If the items of `top` are large, send `limit` and "
        "follow `next_cursor`, or select `columns`.",
    ),
    invalid_key=Remedy(
        "Your path is not percent-encoded UTF-8, or the key has more than 8,192 bytes.",
        "Percent-encode the key as UTF-8. For example, write a percent sign as `%25`.",
    ),
    invalid_body=Remedy(
        "The body is not a JSON list of keys, it has more than 1,000 keys, or a key has more than "
        "8,192 bytes. For a SQL query, the body is not an object with `query`.",
        'Send a list such as `["EWR", "JFK"]`, or divide it into several requests. Send a SQL '
        'query as `{"query": "SELECT 1"}`.',
    ),
    body_too_large=Remedy(
        "The body has more bytes than `body_bytes`.",
        "Divide the list of keys into several requests.",
    ),
    wrong_store_kind=Remedy(
        "The store does not have this read, because it has another window kind.",
        "Use one of the reads that `detail` lists. See [Reads](reads.md#reads-by-store-kind).",
    ),
    window_not_found=Remedy(
        "The key does not have this window or session, or the window has expired.",
        "Treat it as an empty result. The Python client returns `None`.",
    ),
    topology_not_found=Remedy(
        "No pipeline of the data directory has started since it can write its topology, or your "
        "token grants access to no store of a pipeline.",
        "Restart the pipeline with this version of Oriel.",
    ),
    row_not_found=Remedy(
        "The key has no record yet, or its row was removed.",
        "Treat it as an empty result. The Python client returns `None`.",
    ),
    version_not_valid=Remedy(
        "The key had no row at the time `at_ms`, or the version is older than the history of the "
        "store.",
        "Treat it as an empty result. If you need older versions, set a longer "
        "`history_retention_ms`. See [Versioned tables](topology/tables.md#versioned-tables).",
    ),
    key_of_another_shard=Remedy(
        "The service indexes one shard of the keys, and another shard has this key.",
        "Send the request to the shard that the header field `Oriel-Owner` names. A router does "
        "this for you: see [How to route requests to shards](../how-to/routing.md).",
    ),
    keys_of_several_shards=Remedy(
        "The keys of your list belong to several shards, so no service has all keys.",
        "Send one request per shard. The field `owners` has the shard of each key, in the order "
        "of the list.",
    ),
    table_reads_busy=Remedy(
        "The process already has 16 table reads. Reads of earlier versions, changes and dead "
        "letters are table reads.",
        "Send your request again later, or read the current version, which the index serves.",
    ),
    unknown_route=Remedy(
        "No operation has this path.",
        "Compare your path with [Requests](requests.md). Percent-encode a store name.",
    ),
    method_not_allowed=Remedy(
        "The operation of this path has another method.",
        "Use the method that the header field `Allow` names.",
    ),
    overloaded=Remedy(
        "The worker has reached the limit that `detail` names, for example `requests`.",
        "Send your request again after `Retry-After`. If it happens often, start more workers or "
        "services.",
    ),
    request_too_slow=Remedy(
        "No response began within `request_seconds`.",
        "Narrow the bounds of your request or lower `limit`, or send it again.",
    ),
    shutting_down=Remedy(
        "The worker is shutting down.",
        "Send your request again. Another worker or service responds.",
    ),
    request_timeout=Remedy(
        "The header or the body did not arrive within `header_seconds` or `body_seconds`.",
        "Send the whole request at once.",
    ),
    header_too_large=Remedy(
        "The header fields have more bytes than `header_bytes`.",
        "Send fewer or shorter header fields, for example cookies.",
    ),
    url_too_long=Remedy(
        "The path and the query have more bytes than `url_bytes`.",
        "Send many keys with one of the `OfKeys` reads, which accept them in the body.",
    ),
    unknown_host=Remedy(
        "The `Host` field has a name that the service does not serve.",
        "Start the service with `--allowed-host NAME`, or use an address or `localhost`.",
    ),
    unauthorized=Remedy(
        "Your request has no token, or your token is unknown or expired.",
        "Send `Authorization: Bearer TOKEN` with your token. See [Tokens](security.md#tokens).",
    ),
    forbidden=Remedy(
        "Your token does not grant access to this key or to this operation.",
        "Request only the keys that your token grants access to, or use another token.",
    ),
    not_acceptable=Remedy(
        "`Accept` names no format that the operation has, or `Accept-Encoding` excludes every "
        "content coding and `identity`.",
        "Use one of the values that `detail` lists. See [Response formats](response-formats.md).",
    ),
    invalid_cursor=Remedy(
        "Your cursor belongs to another request, is truncated, or the store was re-created.",
        "Read again from the first page. Between pages, change no parameter except `limit`.",
    ),
    unfit_key=Remedy(
        "The key does not have the key type of the store. For example, `EWR` in a store of "
        "64-bit integers.",
        "Write the key as [Keys](keys.md) describes for the `key_type` of the store.",
    ),
    unknown_store=Remedy(
        "No store has this name, or your token does not grant access to it.",
        "Use a name that `GET /v1/stores` lists.",
    ),
    version_not_found=Remedy(
        "The table does not have this version yet.",
        "Use a version that `detail` lists.",
    ),
    version_gone=Remedy(
        "The table or its log was cleaned up, so the version no longer exists.",
        "Use a newer version. For `changes`, read the store again and continue from its version.",
    ),
    history_lost=Remedy(
        "A restore of an older backup replaced the version that the request names, or the log no "
        "longer has it.",
        "Discard the version, the cursor and what you keep of the store, and read it again.",
    ),
    table_damaged=Remedy(
        "The log of the table is damaged, or a data file of it does not exist.",
        "Run `oriel verify`. If it confirms the damage, restore a backup of the table.",
    ),
    table_read_too_large=Remedy(
        "A table read exceeds its memory limit. Reads of earlier versions, changes and dead "
        "letters are table reads.",
        "Narrow the bounds or lower `limit`.",
    ),
    table_read_timeout=Remedy(
        "A table read exceeds its time limit. Reads of earlier versions, changes and dead letters "
        "are table reads.",
        "Narrow the bounds, or send the request again.",
    ),
    object_store_failed=Remedy(
        "The object store does not respond, denies access, or does not have the bucket.",
        "Send your request again. If the problem remains, check the address and the credentials "
        "of the object store.",
    ),
    behind_position_bound=Remedy(
        "The store did not reach the `min_version` or `min_offset` of the request within "
        "`wait_ms`.",
        "Send your request again, or set a greater `wait_ms`. Check that the pipeline runs. See "
        "[Positions and consistency](../concepts/positions.md).",
    ),
    index_damaged=Remedy(
        "The index of the store cannot be read, and the service is rebuilding it.",
        "Send your request again after `Retry-After`.",
    ),
    store_not_ready=Remedy(
        "The service is building the index of the store, or the store has no version yet.",
        "Send your request again. `/readyz` names the stores that are not ready.",
    ),
    internal_error=Remedy(
        "The service failed in a way that is not expected.",
        "Read the log of the service, which has the reason, and report it.",
    ),
    malformed_request=Remedy(
        "The bytes are not an HTTP request, or the request has two `Host` or two `Authorization` "
        "fields, or, from HTTP/1.1 on, no `Host` field.",
        "Use an HTTP client. Check the proxies between the client and the service.",
    ),
)
