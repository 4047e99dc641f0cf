"""``oriel rescale STORE KEY_GROUPS``: change how many tasks a store can ever use."""

import argparse
from collections.abc import Sequence

from oriel.pipeline.commit import rescale
from oriel.pipeline.operations.messages import EXPECTED, print_error
from oriel.storage import DataLayout, absolute, current_files, data_folder


def main(arguments: Sequence[str]) -> int:
    """Run the command; 0: done, 1: an error that the user can mend, in one line on stderr."""
    parser = argparse.ArgumentParser(
        prog="oriel rescale",
        description="Change how many tasks a store can ever use; its pipeline must not run.",
    )
    parser.add_argument("store", help="name of the store")
    parser.add_argument("key_groups", type=int, help="the new number of key groups")
    parser.add_argument(
        "--data", type=data_folder, required=True, help="folder of tables and checkpoints"
    )
    parser.add_argument(
        "--no-sync", action="store_true",
        help="do not force files to disk before committing: faster, unsafe on power loss",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    if options.key_groups < 1:
        parser.error(f"{options.key_groups} key groups: there must be at least one")
    layout = DataLayout(absolute(options.data))
    try:
        current_files().reach(layout.root)
        rescaled = rescale(layout, options.store, options.key_groups, sync=not options.no_sync)
    except EXPECTED as error:
        print_error("rescale", error)
        return 1
    print(f"{rescaled.name}: {rescaled.key_groups} key groups")
    return 0
