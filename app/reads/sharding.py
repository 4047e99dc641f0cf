"""A service of one shard answers for its own keys, and names the shard of any other."""

from collections.abc import Iterable

from oriel.app.contract import KeyOfAnotherShard, decode_path
from oriel.app.reads.hot_reads import Target
from oriel.storage import Shard


def refuse_keys_of_others(shard: Shard, keys: Iterable[str]) -> None:
    """Refuse keys that another shard has: here an unknown key and one of others look alike.

    Raises:
        KeyOfAnotherShard: one of them has, which the error names (421, which no cache or client
            takes for an answer).
    """
    if shard.is_all:
        return
    for key in keys:
        owner = shard.owner(key)
        if owner != shard.number:
            message = (
                f"this service is shard {shard}, and shard {owner}/{shard.count} has the key: ask "
                "that one, or the router in front of them"
            )
            raise KeyOfAnotherShard(message, owner)


def key_of_target(target: Target) -> list[str]:
    """The key that a hot read asks for; none where it is about many.

    Raises:
        InvalidKey: it can't be decoded.
    """
    parameters = target.read.path_parameters
    if not parameters:
        return []
    # The key is the last parameter and takes all the rest.
    return [decode_path(target.rest.split(b"/", len(parameters) - 1)[-1])]
