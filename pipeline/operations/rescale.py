"""``oriel rescale STORE KEY_GROUPS``: change the maximum number of tasks of a store."""

import argparse
from collections.abc import Sequence

from oriel.pipeline.arguments import add_data_option
from oriel.pipeline.commit import rescale
from oriel.pipeline.operations.messages import EXPECTED, print_error
from oriel.storage import DataLayout, absolute, current_files


def main(arguments: Sequence[str]) -> int:
    """Change the number of key groups of a store.

    Returns:
        The exit code: 0 on success, 1 after an error, which is one line on stderr.
    """
    parser = argparse.ArgumentParser(
        prog="oriel rescale",
        description="Change the number of key groups of a store, which is the number of tasks "
        "that it can use at most. The pipeline must not run. Rows and results do not change.",
    )
    parser.add_argument("store", help="name of the store")
    parser.add_argument("key_groups", type=int, metavar="KEY_GROUPS",
                        help="new number of key groups")  # fmt: skip
    add_data_option(parser, "change a store of this data directory")
    parser.add_argument(
        "--no-sync", action="store_true",
        help="do not force files to disk before a commit. This is faster, but loses data on power "
            "loss",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    if options.key_groups < 1:
        parser.error(f"KEY_GROUPS is {options.key_groups}. It must be at least 1")
    layout = DataLayout(absolute(options.data))
    try:
        current_files().reach(layout.root)
        rescaled = rescale(layout, options.store, options.key_groups, sync=not options.no_sync)
    except EXPECTED as error:
        print_error("rescale", error)
        return 1
    print(f"{rescaled.name}: {rescaled.key_groups} key groups")
    return 0
