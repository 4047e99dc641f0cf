"""Check that a statement only reads views, with the parser of DuckDB.

``lock_configuration`` and ``allowed_paths`` already keep DuckDB from other files. But some of its
functions have effects or show settings, and since DuckDB 2.0 a ``WITH`` clause can change tables.
So the check accepts only known kinds of nodes and functions (decision 0115).
"""

from typing import Any

import duckdb
import orjson

from oriel.sql.errors import InvalidQuery

#: Nodes of queries. Others change tables, for example ``INSERT_QUERY_NODE``.
_QUERIES = frozenset({
    "SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE",
})  # fmt: skip
#: Functions that return rows and read nothing but their arguments.
_FUNCTIONS = frozenset({
    "generate_series", "json_each", "json_tree", "range", "repeat", "repeat_row", "unnest",
})  # fmt: skip


def check_statement(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    """Check that a text is one ``SELECT`` statement that only reads views.

    Raises:
        InvalidQuery: It is another statement, several statements, or it calls a function that does
            not only compute.
        duckdb.Error: The text is not SQL.
    """
    statements = connection.extract_statements(statement)
    if [each.type for each in statements] != [duckdb.StatementType.SELECT]:
        message = "the query must be one SELECT statement. Oriel's tables are read-only"
        raise InvalidQuery(message)
    ((tree,),) = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [statement]).fetchall()
    try:
        parsed = orjson.loads(tree)
    except orjson.JSONDecodeError as error:
        message = "the query has more than 1,000 levels. Use fewer parentheses"
        raise InvalidQuery(message) from error
    if parsed["error"]:
        raise InvalidQuery(parsed["error_message"])
    # A list instead of recursive calls, because the text decides how deep the tree is.
    remaining: list[Any] = [parsed["statements"]]
    while remaining:
        part = remaining.pop()
        if isinstance(part, dict):
            _check_node(part)
            remaining.extend(part.values())
        elif isinstance(part, list):
            remaining.extend(part)


def _check_node(node: dict[str, Any]) -> None:
    kind = node.get("type")
    if not isinstance(kind, str):
        return
    if kind.endswith("_NODE") and kind not in _QUERIES:
        message = "the query must only contain SELECT. Oriel's tables are read-only"
        raise InvalidQuery(message)
    if kind == "TABLE_FUNCTION":
        name = node["function"].get("function_name", "")
        if name.lower() not in _FUNCTIONS:
            message = (
                f"the function {name} cannot be used in FROM. Read stores by their names. Possible "
                f"functions: {', '.join(sorted(_FUNCTIONS))}"
            )
            raise InvalidQuery(message)
    if kind == "BASE_TABLE" and "/" in node.get("table_name", ""):
        message = f"{node['table_name']} is a file. Read stores by their names"
        raise InvalidQuery(message)
