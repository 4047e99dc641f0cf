"""Tests of tokens of an identity provider: which are accepted, and how its keys are read."""

import base64
import json
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jwt
import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from oriel.app.contract import Forbidden
from oriel.app.guards import Access, AccessGuard, InvalidKeys, jwt_tokens
from oriel.app.guards.jwt_tokens import JwtSettings, JwtVerifier
from tests.storage.waiting import WAIT_SECONDS, wait_until


class Provider:
    """An identity provider with one key at a time."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "jwks.json"
        self.settings = JwtSettings(str(self.file), "https://id.example", "oriel")
        self.rotate("first")

    def rotate(self, key_id: str) -> None:
        """Replace the key."""
        self.key_id = key_id
        self.key = rsa.generate_private_key(65537, 2048)
        numbers = jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        self.publish({**numbers, "kid": key_id, "alg": "RS256"})

    def publish(self, *keys: object) -> None:
        """Replace the keys of the key set."""
        self.file.write_bytes(orjson.dumps({"keys": keys}))

    def token(self, key: Any = None, algorithm: str = "RS256", **changes: Any) -> bytes:
        """Return a valid token with changed claims, without the claims whose value is null."""
        claims = {
            "iss": "https://id.example", "aud": "oriel", "sub": "ann", "exp": 4_000_000_000,
            "oriel_stores": ["store"], **changes,
        }  # fmt: skip
        claims = {name: value for name, value in claims.items() if value is not None}
        made = jwt.encode(claims, key or self.key, algorithm, headers={"kid": self.key_id})
        return made.encode()


@pytest.fixture
def provider(tmp_path: Path) -> Provider:
    """Return an identity provider."""
    return Provider(tmp_path)


def test_a_good_token_of_a_provider_reaches_what_it_says(provider: Provider) -> None:
    """Without a claim of stores, a token grants no store. Without a claim of keys, all keys."""
    verifier = JwtVerifier(provider.settings)
    access = verifier.access_of(provider.token(oriel_key_prefixes=["a"]))
    assert access is not None
    assert (access.name, access.stores, access.key_prefixes) == ("ann", ("store",), ("a",))
    access = verifier.access_of(provider.token(oriel_stores=None))
    assert access is not None
    assert (access.stores, access.key_prefixes) == ((), None)


@pytest.mark.parametrize("name", ["oriel_stores", "oriel_key_prefixes"])
@pytest.mark.parametrize("claim", ["*", [1], ["a", None], {"a": "b"}, 7, False])
def test_a_malformed_claim_is_refused_and_named(
    provider: Provider, capsys: pytest.CaptureFixture[str], name: str, claim: object
) -> None:
    """The problem and the log line for a malformed claim have its name and value."""
    guard = AccessGuard([JwtVerifier(provider.settings)])
    claims: dict[str, Any] = {name: claim}
    token = provider.token(**claims)
    scope = {"method": "GET", "raw_path": b"/v1/stores", "query_string": b""}
    with pytest.raises(Forbidden) as refused:
        guard.check(scope, b"Bearer " + token)
    assert str(refused.value) == (
        f"claim {name}: it must be a list of strings, not "
        f"{json.dumps(claim)}. Correct the claim at the identity provider."
    )
    error = capsys.readouterr().err
    denied = "request denied: client=unknown method=GET path=/v1/stores token=none"
    assert error == f"{denied}. {refused.value}\n"
    assert "oriel.access" not in scope


def test_other_tokens_are_none(provider: Provider) -> None:
    """Tokens that are expired, unsigned, wrongly signed or for others are rejected."""
    verifier = JwtVerifier(provider.settings)
    public = provider.file.read_bytes()
    unsigned = base64.urlsafe_b64encode(b'{"alg":"none","kid":"first"}').rstrip(b"=")
    good = provider.token()
    bad: Sequence[bytes] = [
        provider.token(exp=1), provider.token(exp=None), provider.token(iss="https://other"),
        provider.token(aud="other"), provider.token(aud=None), provider.token(iss=None),
        provider.token(nbf=3_999_999_999), good[:-4] + b"AAAA", b"", b"x", b"a.b.c", b"\xff",
        provider.token(rsa.generate_private_key(65537, 2048)),
        provider.token(ed25519.Ed25519PrivateKey.generate(), "EdDSA"),
        provider.token(public + b"x" * 64, "HS256"),
        b".".join([unsigned, good.split(b".")[1], b""]),
    ]  # fmt: skip
    assert [verifier.access_of(one) for one in bad] == [None] * len(bad)
    assert verifier.access_of(good) is not None


def test_keys_of_a_provider_change_without_a_restart(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens of a new key are accepted after the keys are read, and old ones are rejected."""
    monkeypatch.setattr(jwt_tokens, "_UNKNOWN_KEY_SECONDS", 0.0)
    verifier = JwtVerifier(provider.settings)
    old = provider.token()
    assert verifier.access_of(old) is not None
    provider.rotate("second")
    new = provider.token()
    wait_until(lambda: verifier.access_of(new), "access by the new key")
    assert verifier.access_of(old) is None


@pytest.mark.parametrize(
    "keys",
    [
        None, (), ({"kty": "RSA", "kid": "first"},), ({"kty": "unknown", "kid": "first"},),
        ({"kty": "RSA", "kid": "first", "n": 1, "e": []},), (1, None, "first", []),
    ],
)  # fmt: skip
def test_a_token_ends_when_its_key_is_replaced_or_removed(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, keys: tuple[object, ...] | None
) -> None:
    """A token ends when its key is replaced or removed, even if the new key has its id."""
    verifier = JwtVerifier(provider.settings)
    old = provider.token()
    assert verifier.access_of(old) is not None
    if keys is None:
        provider.rotate(provider.key_id)
    else:
        provider.publish(*keys)
    assert verifier.access_of(old) is not None
    monkeypatch.setattr(jwt_tokens, "_REFRESH_SECONDS", 0.0)
    verifier.follow()
    wait_until(lambda: verifier.access_of(old) is None, "the end of the token")
    assert (verifier.access_of(provider.token()) is not None) is (keys is None)
    assert (JwtVerifier(provider.settings).access_of(provider.token()) is not None) is (
        keys is None
    )


def test_a_token_is_not_remembered_for_keys_that_are_read_meanwhile(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token is not cached for new keys that are read after its signature check."""
    verifier = JwtVerifier(provider.settings)
    old, access_of = provider.token(), jwt_tokens._access

    def read_keys(claims: Mapping[str, Any]) -> Access:
        provider.rotate(provider.key_id)
        verifier._read_again()
        return access_of(claims)

    monkeypatch.setattr(jwt_tokens, "_access", read_keys)
    assert verifier.access_of(old) is not None
    assert verifier.access_of(old) is None


@pytest.mark.parametrize("content", [b"", b'{"keys": [', b"{}", b'{"keys": null}', b"[]", b"\xff"])
def test_a_damaged_key_set_leaves_the_keys_as_they_were(
    provider: Provider, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """With a damaged key set, a running service logs an error, and a start fails."""
    verifier = JwtVerifier(provider.settings)
    provider.file.write_bytes(content)
    verifier._read_again()
    assert "The previous keys stay in use" in caplog.text
    assert verifier.access_of(provider.token()) is not None
    with pytest.raises(InvalidKeys, match=r"jwks\.json"):
        JwtVerifier(provider.settings)


def test_an_unknown_key_is_looked_up_once_in_a_while(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many tokens with unknown keys cause at most one request per interval."""
    monkeypatch.setattr(jwt_tokens, "_UNKNOWN_KEY_SECONDS", 3600.0)
    verifier = JwtVerifier(provider.settings)
    provider.rotate("second")
    for _ in range(3):
        assert verifier.access_of(provider.token()) is None
    assert verifier._reading is None


def test_a_key_set_is_read_by_one_thread(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a request to the provider is in progress, other tokens start no request."""
    monkeypatch.setattr(jwt_tokens, "_UNKNOWN_KEY_SECONDS", 0.0)
    verifier = JwtVerifier(provider.settings)
    good, may_respond = provider.token(), threading.Event()
    read, requests = jwt_tokens._read_keys, list[str]()

    def wait_and_read(place: str) -> dict[str | None, jwt.PyJWK]:
        requests.append(place)
        assert may_respond.wait(WAIT_SECONDS)
        return read(place)

    monkeypatch.setattr(jwt_tokens, "_read_keys", wait_and_read)
    provider.rotate("second")
    assert verifier.access_of(provider.token()) is None
    wait_until(lambda: requests, "the request to the provider")
    assert verifier.access_of(provider.token()) is None
    assert requests == [str(provider.file)]
    may_respond.set()
    wait_until(lambda: verifier.access_of(provider.token()), "access by the new key")
    assert verifier.access_of(good) is None


def test_tokens_that_were_checked_are_remembered_up_to_a_bound(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache of verified tokens is bounded, and evicted tokens are verified again."""
    monkeypatch.setattr(jwt_tokens, "_CACHE_MAX", 2)
    verifier = JwtVerifier(provider.settings)
    tokens = [provider.token(sub=name) for name in ("ann", "bob", "cid", "ann")]
    accesses = [verifier.access_of(one) for one in tokens]
    assert [access and access.name for access in accesses] == ["ann", "bob", "cid", "ann"]
    assert len(verifier._key_set.verified) == 2


def test_deleted_keys_stay_unchanged(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If the provider is unavailable, the previous keys stay in use."""
    verifier = JwtVerifier(provider.settings)
    provider.file.unlink()
    monkeypatch.setattr(jwt_tokens, "_REFRESH_SECONDS", 0.0)
    assert verifier.access_of(provider.token()) is not None
    wait_until(lambda: caplog.text, "the line", lambda text: "previous keys stay in use" in text)
    assert verifier.access_of(provider.token()) is not None


def test_keys_come_from_an_address(provider: Provider) -> None:
    """The keys can be read from a URL."""

    class Keys(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(provider.file.read_bytes())

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with HTTPServer(("127.0.0.1", 0), Keys) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        place = f"http://127.0.0.1:{server.server_port}/jwks.json"
        verifier = JwtVerifier(provider.settings._replace(keys=place))
        server.shutdown()
        thread.join()
    assert verifier.access_of(provider.token()) is not None
