"""Tests of tokens in a file: which requests each token is allowed to send."""

import asyncio
import contextlib
import io
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import orjson
import pytest

from oriel.app.contract import OPERATIONS, PROMETHEUS_PATH, Forbidden
from oriel.app.guards import Access, AccessGuard, token
from oriel.app.guards.tokens import InvalidTokenFile, TokenFile
from oriel.app.push import streams
from oriel.app.server import Service
from oriel.app.server.settings import ServiceSettings
from oriel.storage import set_up_console
from tests.app.api_client import ApiClient, ApiResponse, Served, served
from tests.app.problem_shape import assert_problem, assert_prometheus_error
from tests.storage.store_tables import TUMBLING, Row, make_definition
from tests.storage.waiting import WAIT_SECONDS, wait_in_loop

ROOT = "/v1/stores/store"
OTHER = "/v1/stores/other"


class Guarded:
    """A service with tokens, and methods to create tokens and to send requests with them."""

    def __init__(self, made: Served) -> None:
        """Start with one token that grants access to everything."""
        self._made = made
        data = made.data
        self.file = data / "tokens.toml"
        self.all = self.make("all")
        self.service = Service(data, ServiceSettings(tokens=str(self.file)))
        self._client = ApiClient(self.service)

    def commit(self, *rows: Row) -> None:
        """Commit to the first store and index it."""
        self.service.catalog.close()
        self._made.commit(*rows)

    def make(self, name: str, *options: str) -> str:
        """Create a token as `oriel token` does."""
        return token_in(self.file, name, *options)

    def get(self, target: str, bearer: str | None, method: str = "GET") -> ApiResponse:
        """Send a request with a token, or without one."""
        headers = [] if bearer is None else [("Authorization", f"Bearer {bearer}")]
        return self._client.get(target, headers, method)

    def post(self, target: str, bearer: str | None, keys: Sequence[object]) -> ApiResponse:
        """Send a list of keys with a token, or without one."""
        headers = [] if bearer is None else [("Authorization", f"Bearer {bearer}")]
        return self._client.post(target, orjson.dumps(keys), headers)

    async def watch(self, target: str, bearer: str, change: Callable[[], None]) -> bytes:
        """Return the body of a stream that is open when ``change`` is called."""
        headers = [("Authorization", f"Bearer {bearer}")]
        watching = asyncio.create_task(self._client.call(target, headers))
        async with asyncio.timeout(WAIT_SECONDS):
            await wait_in_loop(lambda: self.service.gate.streams, "the stream to be open")
            change()
            self.reload()
            return (await watching).body

    def reload(self) -> None:
        """Let the next request read the file again."""
        assert self.service._access is not None
        (verifier,) = self.service._access._verifiers
        assert isinstance(verifier, TokenFile)
        verifier._checked_at = 0.0
        self.service._access._recent_until = 0.0


def token_in(file: Path, *options: str) -> str:
    """Create a token in this file as `oriel token` does, and return it."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert token.main([*options, "--file", str(file)]) == 0
    return out.getvalue().strip()


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    """Return stores "store" and "other", each with a window of the keys "ab" and "b"."""
    with served(tmp_path, window=TUMBLING) as made:
        rows = [{"key": key, "start": 10} for key in ("ab", "b")]
        made.commit(*rows)
        made.add(make_definition("other"), *rows)
        made.service.catalog.close()
        opened = Guarded(made)
        yield opened
        opened.service.catalog.close()


_NEED_NONE = ("/", "/page/main.js", "/docs", "/healthz", "/openapi.json")


def test_every_path_needs_a_token_but_those_without_data(guarded: Guarded) -> None:
    """Every operation and every unknown path requires a token, except paths without data."""
    targets = [
        operation.path.format(
            store="store", key="ab", window_start_ms="10", window_end_ms="20", instant_ms="10",
            label="key",
        )
        for operation in OPERATIONS.values()
    ]  # fmt: skip
    for target in [*targets, "/openapi.json", "/nothing", "/v1", "//", "/v1/stores/"]:
        for bearer in (None, "", "wrong", guarded.all + "x"):
            response = guarded.get(target, bearer)
            reason = "has no token. Send it as 'Auth" if not bearer else "unknown, has expired"
            if target in _NEED_NONE:
                assert response.status == 200
            elif target.startswith(PROMETHEUS_PATH):
                assert_prometheus_error(response, 401, "unauthorized", reason)
            else:
                assert_problem(response, 401, "unauthorized", reason)
        if not target.endswith("/watch"):
            assert guarded.get(target, guarded.all).status != 401


def test_probes_need_no_token_if_they_are_open(guarded: Guarded) -> None:
    """With open probes, only readiness, freshness, health and metrics need no token."""
    settings = ServiceSettings(tokens=str(guarded.file), open_probes=True)
    service = Service(guarded.service.catalog.layout.root, settings)
    client = ApiClient(service)
    for target in ("/readyz", "/freshz", "/metrics", "/healthz"):
        assert client.get(target).status in (200, 503)
    for target in ("/v1/stores", f"{ROOT}/latest/ab", "/v1/deadLetters", "/metrics/", "/readyz/x"):
        assert client.get(target).status == 401
    service.catalog.close()


def test_a_forbidden_store_looks_as_one_that_there_is_none_of(guarded: Guarded) -> None:
    """A forbidden store has the response of an unknown one in every read, and is not listed."""
    bearer = guarded.make("one", "--store", "store", "--store", "ghost*")
    guarded.reload()
    for rest in ("", "/keys", "/latest/ab", "/fetch/ab", "/watch", "/nothing", "/get/ab"):
        forbidden = guarded.get(OTHER + rest, bearer)
        unknown = guarded.get(f"/v1/stores/nothere{rest}", bearer)
        reached_but_unknown = guarded.get(f"/v1/stores/ghost1{rest}", bearer)
        assert_problem(forbidden, 404, "unknown-store", "does not grant access to a store")
        for response in (unknown, reached_but_unknown):
            if rest != "/nothing":
                instance = response.json["instance"].encode()
                assert response.body.replace(instance, f"{OTHER}{rest}".encode()) == forbidden.body
    listed = guarded.get("/v1/stores", bearer).json["stores"]
    assert [summary["store"] for summary in listed] == ["store"]
    assert guarded.get(f"{ROOT}/latest/ab", bearer).status == 200
    for target in ("/readyz", "/freshz", "/metrics", "/nothing"):
        assert_problem(guarded.get(target, bearer), 403, "forbidden")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "is_reached"),
    [
        ("latest/ab", True), ("latest/a%62", True), ("latest/%61b", True), ("latest/b", False),
        ("latest/", False), ("fetch/ab?to_ms=9", True), ("fetch/b", False),
        ("backwardFetch/b", False),
        ("window/10/ab", True), ("window/10/b", False), ("window/ab/b", False),
        ("merged/ab?columns=n", True), ("merged/b?columns=n", False), ("merged/", False),
        ("mergedAll?columns=n&prefix=a", True), ("mergedAll?columns=n&prefix=b", False),
        ("mergedAll?columns=n", False),
        ("window/10%2Fab", False), ("keys?prefix=a", True), ("keys?prefix=ab", True),
        ("keys", False), ("keys?prefix=", False), ("keys?prefix=b", False),
        ("watch?key=ab&for_ms=1", True), ("watch?for_ms=1", False),
        ("watch?key=ab&key=b&for_ms=1", False), ("nothing", False), ("fetch", False),
    ],
)  # fmt: skip
def test_a_token_for_some_keys_reads_by_those_only(
    guarded: Guarded, target: str, is_reached: bool
) -> None:
    """A token for key prefixes only grants reads of such keys, in any URL encoding."""
    bearer = guarded.make("keys", "--key-prefix", "a", "--key-prefix", "x")
    guarded.reload()
    response = guarded.get(f"{ROOT}/{target}", bearer)
    if is_reached:
        assert response.status == 200
    else:
        assert_problem(response, 403, "forbidden", "'a', 'x'")
    assert guarded.get(ROOT, bearer).status == 200


def test_a_token_for_some_keys_reads_listed_keys(guarded: Guarded) -> None:
    """A request with a list of keys needs a token that grants access to each of the keys."""
    bearer = guarded.make("keys", "--key-prefix", "a", "--key-prefix", "x")
    guarded.reload()
    names = ("latestOfKeys", "currentOfKeys", "fetchOfKeys", "backwardFetchOfKeys", "mergedOfKeys")
    for operation in names:
        target = f"{ROOT}/{operation}?columns=n"
        for keys in (["a"], ["ab", "x"], []):
            assert guarded.post(target, bearer, keys).status == 200, (operation, keys)
        for keys in (["b"], ["a", "b"], ["xa", ""]):
            assert_problem(guarded.post(target, bearer, keys), 403, "forbidden", "'a', 'x'")
    assert_problem(guarded.post(f"{ROOT}/currentOfKeys", None, ["a"]), 401, "unauthorized")
    assert_problem(guarded.get(f"{ROOT}/currentOfKeys", bearer), 405, "method-not-allowed")


def test_a_token_for_some_keys_reads_nothing_about_all_keys(guarded: Guarded) -> None:
    """Routes outside of a store need a token for all stores, and data routes also for all keys."""
    keys = guarded.make("keys", "--key-prefix", "a")
    guarded.reload()
    for target in ("/v1/deadLetters", "/v1/nothing"):
        assert_problem(guarded.get(target, keys), 403, "forbidden", "access to some keys")
        assert guarded.get(target, guarded.all).status in (200, 404)
    assert_problem(guarded.get("/metrics", keys), 403, "forbidden", "access to some keys")


def test_a_token_for_some_keys_reads_no_totals(guarded: Guarded) -> None:
    """Totals over all keys of a store are null or empty for a token with key prefixes."""
    keys, monitoring = guarded.make("keys", "--key-prefix", "a"), guarded.make("monitoring")
    guarded.file.write_text(guarded.file.read_text() + "key_prefixes = []\n")
    guarded.reload()
    for bearer, totals in ((keys, None), (monitoring, 2), (guarded.all, 2)):
        (_, summary) = guarded.get("/v1/stores", bearer).json["stores"]
        detail = guarded.get(ROOT, bearer).json
        assert (summary["windows"], detail["index"]["windows"]) == (totals, totals)
        assert summary["counters"] == detail["counters"]
        assert bool(detail["counters"]) is (totals is not None)
        assert detail["position"]["version"] == 1
        (_, status) = guarded.get("/v1/status", bearer).json["stores"]
        assert status["counters"] == detail["counters"]
        for name in ("state_bytes", "table_bytes", "files"):
            assert (status[name] is None) is (totals is None)
        forbidden = [f"{ROOT}/approximateNumEntries", "/v1/deadLetters/counts"]
        if totals is None:
            forbidden.append("/metrics")
        if bearer != guarded.all:
            for target in forbidden:
                assert_problem(guarded.get(target, bearer), 403, "forbidden")
        assert guarded.get("/metrics", bearer).status == (403 if totals is None else 200)
    assert_problem(guarded.get(f"{ROOT}/latest/ab", monitoring), 403, "forbidden", "nothing")


def test_tokens_come_and_go_without_a_restart(guarded: Guarded) -> None:
    """Tokens are added and expire without a restart, and a torn or missing file changes nothing."""
    more = guarded.make("more")
    guarded.reload()
    assert guarded.get(ROOT, more).status == 200
    content = guarded.file.read_text()
    guarded.file.write_text(content[:-5] + "[[")
    guarded.reload()
    assert guarded.get(ROOT, more).status == 200
    guarded.file.write_text(content + "expires = 2001-01-01T00:00:00Z\n")
    guarded.reload()
    assert guarded.get(ROOT, more).status == 401
    assert guarded.get(ROOT, guarded.all).status == 200
    guarded.file.unlink()
    guarded.reload()
    assert guarded.get(ROOT, guarded.all).status == 200


_ENDED = {
    "it is taken back": ("", "unauthorized"),
    "it expires": ("expires = 2001-01-01T00:00:00Z", "unauthorized"),
    "it reaches another store": ('stores = ["other"]', "unknown-store"),
    "it reaches other keys": ('key_prefixes = ["b"]', "forbidden"),
}


@pytest.mark.parametrize(("entry", "code"), _ENDED.values(), ids=_ENDED)
@pytest.mark.parametrize("is_idle", [True, False])
def test_an_open_stream_ends_with_its_token(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch, entry: str, code: str, is_idle: bool
) -> None:
    """A stream ends with a `denied` event when its token loses access, before later changes."""
    bearer = guarded.make("watcher")
    guarded.reload()
    monkeypatch.setattr(streams, "_ACCESS_SECONDS", 0.01 if is_idle else 1_000.0)

    def change() -> None:
        others, _, own = guarded.file.read_text().rpartition("[[token]]")
        guarded.file.write_text(others + (f"[[token]]{own}{entry}\n" if entry else ""))
        if not is_idle:
            guarded.commit({"key": "ab", "start": 777})

    events = asyncio.run(guarded.watch(f"{ROOT}/watch?key=ab", bearer, change))
    *before, last, end = events.decode().split("\n\n")
    name, data = last.split("\n")
    assert (name, end) == ("event: denied", "")
    assert {event.split("\n")[0] for event in before} == {"event: position"}
    problem = orjson.loads(data.removeprefix("data: "))
    assert (problem["code"], problem["instance"]) == (code, f"{ROOT}/watch")
    assert_problem(guarded.get(f"{ROOT}/watch?key=ab", bearer), problem["status"], code)


def test_an_open_stream_outlives_changes_of_other_tokens(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream continues after changes of other tokens and with a torn file."""
    monkeypatch.setattr(streams, "_ACCESS_SECONDS", 0.01)
    other = guarded.make("other")

    def change() -> None:
        content = guarded.file.read_text()
        guarded.file.write_text(content.rpartition("[[token]]")[0] + "# [[")

    events = asyncio.run(guarded.watch(f"{ROOT}/watch?for_ms=200", guarded.all, change))
    assert b"event: position" in events
    assert b"denied" not in events
    assert guarded.get(ROOT, other).status == 401


def test_the_file_has_no_token_and_is_the_owners_only(guarded: Guarded) -> None:
    """The file is readable by its owner only, and has no usable token."""
    assert guarded.all not in guarded.file.read_text()
    assert stat.S_IMODE(guarded.file.stat().st_mode) == 0o600
    assert token.main(["all", "--file", str(guarded.file)]) == 1


@pytest.mark.parametrize(
    "content",
    [
        "x = 1", "[[token]]", '[[token]]\nname = "x"\nsha256 = "00"',
        '[[token]]\nname = 1\nsha256 = "{}"', '[[token]]\nname = "x"\nsha256 = "{}"\nstore = "a"',
        '[[token]]\nname = "x"\nsha256 = "{}"\nstores = "a"',
        '[[token]]\nname = "x"\nsha256 = "{}"\nexpires = 2027-01-01', "token = 1", "\xff[",
    ],
)  # fmt: skip
def test_a_wrong_token_file_is_refused(tmp_path: Path, content: str) -> None:
    """A file with an unknown entry is rejected, because the entry could restrict a token."""
    file = tmp_path / "tokens.toml"
    file.write_text(content.format("0" * 64))
    with pytest.raises(InvalidTokenFile, match=r"tokens\.toml"):
        TokenFile(file)


def test_each_denied_request_leaves_a_line(
    guarded: Guarded, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each denied request is logged with its reason and the token's name, never the token."""
    bearer = guarded.make("reporter", "--store", "store")
    guarded.reload()
    guarded.get(f"{ROOT}/latest/ab", bearer)
    capsys.readouterr()
    guarded.get(f"{OTHER}/latest/ab", bearer)
    guarded.get(f"{ROOT}/latest/ab", "a-wrong-token")
    named, unnamed = capsys.readouterr().err.splitlines()
    denied = "request denied: client=127.0.0.1 method=GET path="
    assert f"{denied}{OTHER}/latest/ab token=reporter. " in named
    assert f"{denied}{ROOT}/latest/ab token=none. " in unnamed
    assert "a-wrong-token" not in unnamed


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_name_or_path_writes_no_audit_line_of_its_own(
    guarded: Guarded, log_format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Line breaks, escape sequences and other unprintable characters are escaped in logs."""
    set_up_console(log_format)
    for character in "\n\r\x0b\x0c\x1b\x1c\x85\u2028\u2029\u202e\ud800\U000e0001":
        name = f"ann{character}denied GET / to 10.0.0.1, token bob"
        scope = {"method": "GET", "raw_path": b"/v1/x\x85\n\x1bdenied", "query_string": b""}
        guard = AccessGuard([_Named(name)])
        with pytest.raises(Forbidden):
            guard.check(scope, b"Bearer x")
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert said[:-1].isprintable()
        assert character.encode("unicode_escape").decode().lstrip("\\") in said
        if log_format == "json":
            assert orjson.loads(said)["token"].endswith("token bob")


class _Named:
    """Accepts each token as a token with this name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def follow(self) -> None:
        """Do nothing. See ``TokenVerifier``."""

    def access_of(self, token: bytes) -> Access:
        assert token == b"x"
        return Access(self._name, ("store",))


def test_a_prefix_of_composites_reaches_their_first_component(tmp_path: Path) -> None:
    """A key prefix of a composite grants access to its first component up to the comma."""
    with served(tmp_path) as made:
        keys = ('["a",2]', '["a",10]', '["ab",1]')
        definition = make_definition("pairs", key_type="[text, long]")
        made.add(definition, *({"key": key, "start": 10} for key in keys))
        made.service.catalog.close()
        guarded = Guarded(made)
        bearer = guarded.make("one", "--key-prefix", '["a",')
        guarded.reload()
        pairs = "/v1/stores/pairs"
        listed = guarded.get(f"{pairs}/keys?prefix={quote(keys[0][:5])}", bearer)
        assert listed.json["keys"] == ['["a",2]', '["a",10]']
        assert guarded.get(f"{pairs}/latest/{quote(keys[1])}", bearer).status == 200
        for target in (
            "keys", f"keys?prefix={quote(keys[2][:6])}", f"keys?prefix={quote(keys[2][:3])}",
            f"latest/{quote(keys[2])}", f"fetchRange?key_from={quote(keys[0])}",
        ):  # fmt: skip
            assert_problem(guarded.get(f"{pairs}/{target}", bearer), 403, "forbidden")
        for listed_keys, status in (([["a", 2]], 200), ([["ab", 1]], 403), ([keys[2]], 403)):
            response = guarded.post(f"{pairs}/currentOfKeys", bearer, listed_keys)
            assert response.status == status, listed_keys
        guarded.service.catalog.close()
