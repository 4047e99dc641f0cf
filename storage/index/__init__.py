"""The disposable ordered index over a store's table: LMDB, written by the tailer, read by the API.

Layout of one index folder::

    DATA/index/<store>/CURRENT              name of the generation that readers use
    DATA/index/<store>/<generation>/        one LMDB environment (data.mdb, lock.mdb)
    DATA/index/<store>/<generation>/DAMAGED left by a reader that found the generation unreadable
    DATA/index/<store>/<generation>/SUSPECT left when a reader's process crashed

An environment has two databases: ``windows`` (record key -> JSON, see ``storage.key_codec``)
and ``meta`` (one record, the ``IndexState``). Both change in one write transaction per table
version. Invariants: the state names the table version whose rows are there, all of them and
none of a later one; a generation that ``CURRENT`` names is complete; a generation's files are
never replaced in place.
"""
