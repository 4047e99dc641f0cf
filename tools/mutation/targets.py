"""What is mutated, which tests have to notice it, and which mutants no test can notice."""

#: The least percent of the mutants of a module that tests must kill.
FLOOR = 85

_WINDOWS = "tests/windows/test_{}.py"


def _tests(pattern: str, names: str) -> tuple[str, ...]:
    return tuple(pattern.format(name) for name in names.split())


#: A module (a file, or a package with all its modules) -> the cheapest tests that cover it. The
#: tests of a module run in this order until one fails.
TARGETS = {
    "pipeline/windows/definitions": (
        *_tests(_WINDOWS, "definitions window_examples join_examples drawings"),
        "tests/pipeline/language/test_other_words.py",
        "tests/pipeline/language/test_topology_arguments.py",
        "tests/pipeline/language/test_topology_ways_out.py",
    ),
    "pipeline/windows/aggregates": _tests(
        _WINDOWS,
        "aggregates mergeables part_columns deviation window_examples hopping_parts "
        "sliding_members sliding_examples session_merging aggregate_updates table_updates",
    ),
    "pipeline/windows/engines": _tests(
        _WINDOWS,
        "window_examples sliding_examples fold_examples session_merging hopping_parts "
        "sliding_members timeline time_window_properties sliding_properties session_properties "
        "fold_properties",
    ),
    "pipeline/windows/joins": _tests(
        _WINDOWS,
        "join_examples join_pieces table_changes foreign_updates many_updates versioned_tables "
        "places stream_join_properties table_join_properties table_properties",
    ),
    "pipeline/windows/aggregate_updates": _tests(
        _WINDOWS, "aggregate_updates table_updates window_examples"
    ),
    "pipeline/windows/functions": _tests(_WINDOWS, "converters fold_examples fold_properties"),
    "pipeline/windows/arrays": _tests(
        _WINDOWS, "ranges selection record_order window_examples sliding_members converters"
    ),
    "pipeline/windows/exact": _tests(_WINDOWS, "exact_sum deviation aggregates"),
    "pipeline/arrow_steps": _tests(
        "tests/pipeline/arrow_steps/test_{}.py", "arrow_steps expressions_in_arrow functions"
    ),
    "pipeline/commit": (
        *_tests(
            "tests/pipeline/commit/test_{}.py",
            "checkpoint checkpoint_damage switch differences sink_topic log_identity resumption "
            "fencing maintenance",
        ),
        *_tests(
            "tests/system/kills/test_{}.py", "suspended_at_operations failing_files power_loss"
        ),
    ),
    "storage/delta": _tests(
        "tests/storage/test_{}.py",
        "delta_log table table_commits columns compaction table_upkeep replacement "
        "other_hands_files other_hands_history table_power_loss",
    ),
    "storage/index": _tests(
        "tests/storage/test_{}.py",
        "index_bits index_build index_formats index_limits sessions_by_length window_store "
        "session_store key_value_store index_damage index_faults",
    ),
    "storage/key_codec.py": _tests(
        "tests/storage/test_{}.py", "key_codec key_types sessions_by_length"
    ),
    "storage/key_types.py": _tests("tests/storage/test_{}.py", "key_types key_codec typed_keys"),
}

#: Mutants that no test can notice, and why: the changed lines of the diff -> the reason.
EQUIVALENT: dict[tuple[str, str], str] = {
    (
        "_SUFFIX_BYTES = len(_END) + 2 * TIME_BYTES",
        "_SUFFIX_BYTES = len(_END) ^ 2 * TIME_BYTES",
    ): "2 and 16 have no bit in common, so both operators return 18",
}
