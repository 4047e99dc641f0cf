"""Check the shard of a key. A service with one shard serves only the keys of this shard."""

from collections.abc import Iterable

from oriel.app.contract import KeyOfAnotherShard, KeysOfSeveralShards, decode_path
from oriel.app.reads.hot_reads import Target
from oriel.storage import Shard


def require_own_keys(shard: Shard, keys: Iterable[str]) -> None:
    """Reject the keys of other shards, because the index cannot distinguish them from unknown keys.

    Raises:
        KeyOfAnotherShard: Another shard has all keys. The status is 421, which caches do not store.
        KeysOfSeveralShards: Several shards have the keys, so a router cannot choose one.
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
    """Return the key of a hot read in a list, which is empty for a read of many keys.

    Raises:
        InvalidKey: The key cannot be decoded.
    """
    parameters = target.read.path_parameters
    if not parameters:
        return []
    # The key is the last parameter and the whole rest of the path.
    return [decode_path(target.rest.split(b"/", len(parameters) - 1)[-1])]
