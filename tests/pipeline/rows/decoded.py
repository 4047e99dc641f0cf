"""The schema of decoded records in Spark."""


def decoded_columns(value_schema: str) -> str:
    """Return the schema of decoded records whose value has these columns."""
    headers = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
    return (
        "partition INT, offset BIGINT, raw BINARY, "
        f"__message STRUCT<key: BINARY, timestamp_ms: BIGINT, headers: {headers}>, "
        f"key STRING, timestamp_ms BIGINT, value STRUCT<{value_schema}>, reason STRING"
    )
