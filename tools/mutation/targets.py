"""Modules for mutation tests, the tests of each, and the equivalent mutants."""

#: The minimum percentage of the mutants of a module that tests must kill.
FLOOR = 85

_WINDOWS = "tests/windows/test_{}.py"


def _tests(pattern: str, names: str) -> tuple[str, ...]:
    return tuple(pattern.format(name) for name in names.split())


#: A module (a file, or a package with all its modules) -> the cheapest tests that cover it. The
#: tests of a module run in this order until one fails.
TARGETS = {
    "pipeline/windows/definitions": (
        *_tests(_WINDOWS, "definitions window_examples join_examples drawings"),
        "tests/pipeline/language/test_kafka_hints.py",
        "tests/pipeline/language/test_topology_arguments.py",
        "tests/pipeline/language/test_topology_hints.py",
    ),
    "pipeline/windows/aggregates": _tests(
        _WINDOWS,
        "aggregates mergeables part_columns deviation window_examples hopping_parts "
        "sliding_members sliding_examples session_merging aggregate_updates table_updates",
    ),
    "pipeline/windows/engines": _tests(
        _WINDOWS,
        "window_examples sliding_examples function_examples session_merging hopping_parts "
        "sliding_members timeline time_window_properties sliding_properties session_properties "
        "function_properties",
    ),
    "pipeline/windows/joins": (
        *_tests(
            _WINDOWS,
            "join_examples join_pieces table_changes foreign_updates many_updates versioned_tables "
            "stream_join_properties table_join_properties table_properties",
        ),
        *_tests("tests/testing/test_driver_{}.py", "foreign_updates table_updates streams"),
    ),
    "pipeline/windows/aggregate_updates": (
        *_tests(_WINDOWS, "aggregate_updates many_updates table_updates window_examples"),
        "tests/pipeline/state/test_keyed_updates.py",
        *_tests("tests/testing/test_driver_{}.py", "many_updates updates_of_several updates"),
    ),
    "pipeline/windows/functions": _tests(
        _WINDOWS, "converters function_examples function_properties"
    ),
    "pipeline/windows/arrays": _tests(
        _WINDOWS,
        "ranges timeline selection record_order window_examples sliding_members converters",
    ),
    "pipeline/windows/exact": _tests(_WINDOWS, "exact_sum deviation aggregates"),
    "pipeline/arrow_steps": _tests(
        "tests/pipeline/arrow_steps/test_{}.py",
        "arrow_steps expressions_in_arrow random_steps",
    ),
    "storage/expressions": (
        "tests/storage/test_expression_functions.py",
        *_tests("tests/pipeline/arrow_steps/test_{}.py", "expressions_in_arrow random_steps"),
    ),
    "pipeline/commit": (
        *_tests(
            "tests/pipeline/commit/test_{}.py",
            "checkpoint checkpoint_damage switch differences sink_topic log_identity "
            "recovery_point fencing maintenance power_loss",
        ),
        *_tests("tests/system/kills/test_{}.py", "suspended_at_operations failing_files"),
    ),
    "storage/delta": _tests(
        "tests/storage/test_{}.py",
        "delta_log table table_commits columns compaction table_maintenance replacement "
        "other_hands_files other_hands_history table_power_loss",
    ),
    "storage/index": _tests(
        "tests/storage/test_{}.py",
        "index_bits index_build index_formats index_limits sessions_by_length window_store "
        "session_store key_value_store index_damage index_failures",
    ),
    "storage/key_codec.py": _tests(
        "tests/storage/test_{}.py", "key_codec key_types sessions_by_length"
    ),
    "storage/key_types.py": _tests("tests/storage/test_{}.py", "key_types key_codec typed_keys"),
}

#: Equivalent mutants: the changed lines of the diff -> the reason.
EQUIVALENT: dict[tuple[str, str], str] = {
    (
        "_SUFFIX_BYTES = len(_END) + 2 * TIME_BYTES",
        "_SUFFIX_BYTES = len(_END) ^ 2 * TIME_BYTES",
    ): "2 and 16 have no bit in common, so both operators return 18",
    (
        "for component, part in zip(self._components, match.groups(), strict=True)",
        "for component, part in zip(self._components, match.groups(), strict=False)",
    ): "the pattern has one group per component, so both sequences have the same length",
    (
        "return len(prefix) > _PREFIX_BYTES_MAX and prefix[marker : marker + len(_LONG)] == _LONG",
        "return len(prefix) >= _PREFIX_BYTES_MAX and prefix[marker : marker + len(_LONG)] == _LONG",
    ): "a prefix of exactly this length is of a short key, which never holds this mark",
    (
        "return self._columns.results(self._parts[0])",
        "return self._columns.results(self._parts[ -1])",
    ): "after the merge there is one part",
    (
        "if sum(map(len, self._windows[1:])) > _WAITING * len(self._windows[0]):",
        "if sum(map(len, self._windows[1:])) is _WAITING * len(self._windows[0]):",
    ): "decides when parts are merged, which changes no result",
    (
        "if type(value) is not list:",
        "if type(value) != list:",
    ): "types are equal only if they are the same",
    (
        "return [item if type(item) is exact else convert(item) for item in value]",
        "return [item if type(item) > exact else convert(item) for item in value]",
    ): "types have no order, and after the TypeError the rule returns the same list",
    (
        "if (int(code.max(initial=0)) + 1) * self._span >= _MAX_AXIS:",
        "if (int(code.max(initial= -1)) + 1) * self._span >= _MAX_AXIS:",
    ): "differs only without records, where a search finds nothing",
    (
        "_MAX_PLACES = 2**63 - 1",
        "_MAX_PLACES = 2%63 - 1",
    ): "numpy then sorts by all keys, and the order is the same",
    (
        "if (int(run[-1]) + 1) * span < _MAX_AXIS:",
        "if (int(run[-1]) + 1) * span is _MAX_AXIS:",
    ): "the result by ranks of the values is the same",
    (
        "first, last = min(totals, default=0), max(totals, default=0)",
        "first, last = min(totals, default= 1), max(totals, default=0)",
    ): "differs only without finite numbers, whose sum has no limb",
    (
        "if len(row) == 1:",
        "if len(row) == 0:",
    ): "the other branch also adds one row to all columns, more slowly",
    (
        "_BEYOND = 2**12",
        "_BEYOND = 2<<12",
    ): "both are above all exponents of a double",
    (
        "@dataclass(frozen=True)",
        "@dataclass(frozen=False)",
    ): "no code assigns to a field, and mypy would find it",
    (
        "if is_full and first > (cuts[-1] if cuts else groups[0][0]):",
        "if is_full and first >= (cuts[-1] if cuts else groups[0][0]):",
    ): "adds only pieces without rows, which are left out",
    (
        'newest_ms = np.asarray(pc.fill_null(newest["timestamp_ms"].take(number), -1))',
        'newest_ms = np.asarray(pc.fill_null(newest["timestamp_ms"].take(number), - 0))',
    ): "no time of a record is negative",
    (
        "others = self._others[version] = [each for each in joined if each != main]",
        "others = self._others[version] = [each for each in joined if each is not main]",
    ): "main is one of the joined numbers, which are distinct",
    (
        "number = np.concatenate([np.full(len(base.window), -1), new.number[member]])",
        "number = np.concatenate([np.full(len(base.window), - 2), new.number[member]])",
    ): "any negative number sorts before the numbers of new records",
}
