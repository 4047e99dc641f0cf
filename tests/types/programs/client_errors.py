"""Errors of the client as users handle them."""

from typing import assert_type

from oriel.client import (
    Client,
    Gone,
    InvalidRequest,
    Key,
    KeysOfSeveralShards,
    NotAllowed,
    NotFound,
    NotReady,
    OrielError,
    PositionNotReached,
    Problem,
    ServiceFailed,
    ServiceUnreachable,
    UnexpectedAnswer,
    UnknownStore,
    Window,
)


def newest(client: Client, key: Key) -> Window | None:
    """Read the newest window, and handle what the service says by its class."""
    assert_type(key, Key)
    try:
        return client.window_store("departures").latest(key)
    except UnknownStore as error:
        assert_type(error, UnknownStore)
        assert_type(error.code, str)
    except NotFound as error:
        assert_type(error, NotFound)
        assert_type(error.code, str)
    except Gone as error:
        assert_type(error, Gone)
        assert_type(error.code, str)
    except KeysOfSeveralShards as error:
        assert_type(error, KeysOfSeveralShards)
        assert_type(error.code, str)
        assert_type(error.owners, tuple[int, ...])
    except InvalidRequest as error:
        assert_type(error, InvalidRequest)
        assert_type(error.code, str)
    except NotAllowed as error:
        assert_type(error, NotAllowed)
        assert_type(error.code, str)
    except PositionNotReached as error:
        assert_type(error, PositionNotReached)
        assert_type(error.code, str)
    except NotReady as error:
        assert_type(error, NotReady)
        assert_type(error.code, str)
    except ServiceFailed as error:
        assert_type(error, ServiceFailed)
        assert_type(error.code, str)
    return None


def newest_or_none(client: Client, key: Key) -> Window | None:
    """Read the newest window, and handle each kind of error."""
    try:
        return client.window_store("departures").latest(key)
    except Problem as error:
        assert_type(error, Problem)
        assert_type(error.code, str)
        assert_type(error.title, str)
        assert_type(error.detail, str)
        assert_type(error.status, int)
        assert_type(error.instance, str)
        assert_type(error.retry_after_s, float | None)
        assert_type(error.may_pass, bool)
    except ServiceUnreachable as error:
        assert_type(error, ServiceUnreachable)
    except UnexpectedAnswer as error:
        assert_type(error, UnexpectedAnswer)
    except OrielError as error:
        assert_type(error, OrielError)
    return None
