"""A service of one shard answers for its own keys, and names the shard of any other."""

from collections.abc import Iterable

from oriel.app.contract import KeyOfAnotherShard, KeysOfSeveralShards, decode_path
from oriel.app.reads.hot_reads import Target
from oriel.storage import Shard


def refuse_keys_of_others(shard: Shard, keys: Iterable[str]) -> None:
    """Refuse keys that another shard has: here an unknown key and one of others look alike.

    Raises:
        KeyOfAnotherShard: one other shard has all of them, which the error names (421, which no
            cache or client takes for an answer).
        KeysOfSeveralShards: no shard has all of them, so no router finds one.
    """
    if shard.is_all:
        return
    owners = [shard.owner(key) for key in keys]
    if len(found := {*owners}) > 1:
        message = (
            f"the {len(owners)} keys belong to {len(found)} shards of {shard.count}. Send one "
            "request per shard. `owners` has the shard of each key, in the order of the list."
        )
        raise KeysOfSeveralShards(message, owners)
    for owner in found - {shard.number}:
        message = (
            f"this service is shard {shard}, and shard {owner}/{shard.count} has the key. Send the "
            "request to that shard, or let the router follow the field Oriel-Owner"
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
