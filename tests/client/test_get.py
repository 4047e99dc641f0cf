"""Tests of `oriel get` with a real service: its output and its messages."""

import csv
import io
import json
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from oriel.app.guards import token
from oriel.client import Client, Position, Window
from oriel.client.protocol import CSV
from oriel.client.terminal import main
from oriel.client.terminal.command import _write_pages
from oriel.client.terminal.tables import (
    cell,
    printable,
    sparklines,
    table,
    time_of,
    windows_table,
)
from tests.app.serving import Serving
from tests.certificates import self_signed
from tests.client.conftest import Running
from tests.ports import reserved_port
from tests.storage.store_tables import StoreTable, make_definition
from tests.storage.waiting import WAIT_SECONDS, wait_until

Get = Callable[..., tuple[int, str, str]]


@pytest.fixture
def get(running: Running, capfd: pytest.CaptureFixture[str]) -> Get:
    """Return a function that runs the command and returns exit code, output and errors."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main([*arguments, "--url", running.url])
        printed = capfd.readouterr()
        return code, printed.out, printed.err

    return run


class _NoStores(BaseHTTPRequestHandler):
    """A service without a store."""

    def do_GET(self) -> None:
        content = b'{"stores": []}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def test_an_own_authority_is_trusted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`--ca` trusts a private authority. Without it or with an invalid file, the error names it."""
    key, made = self_signed("localhost", x509.DNSName("localhost"))
    certificate, both = tmp_path / "ca.pem", tmp_path / "both.pem"
    certificate.write_bytes(made.public_bytes(Encoding.PEM))
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    both.write_bytes(certificate.read_bytes() + secret)
    (tmp_path / "empty.pem").touch()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _NoStores)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def printed(*options: str) -> tuple[int, str, str]:
        code = main(["--url", f"https://localhost:{server.server_port}", *options])
        return code, *capfd.readouterr()

    assert printed("--ca", str(certificate)) == (0, "the service has no stores yet\n", "")
    code, _, error = printed()
    assert code == 1
    assert "Set --ca to a file with the certificate of the service's authority" in error
    for name, reason in (("empty.pem", "it has no certificate"), ("no.pem", "No such file")):
        code, _, error = printed("--ca", str(tmp_path / name))
        assert code == 1
        assert f"--ca {tmp_path / name}: {reason}" in error
    server.shutdown()


def test_without_a_store_the_stores_are_listed(get: Get) -> None:
    """Without a store, the stores are listed as a table or as one JSON object per line."""
    code, out, _ = get()
    head, *lines = out.splitlines()
    assert code == 0
    assert head.split() == [
        "store",
        "windows",
        "aggregates",
        "version",
        "final",
        "up",
        "to",
        "(UTC)",
    ]
    assert [line.split()[:2] for line in lines] == [
        ["store", "sliding"], ["totals", "none"], ["turns", "tumbling"],
        ["visits", "session"],
    ]  # fmt: skip
    assert [json.loads(line)["name"] for line in get("--json")[1].splitlines()] == [
        "store", "totals", "turns", "visits",
    ]  # fmt: skip
    assert get("--csv")[0] == 1


def test_without_a_key_the_keys_are_listed(get: Get) -> None:
    """Without a key, the keys are listed one per line, with control characters escaped."""
    code, out, _ = get("store", "--limit", "1000")
    assert code == 0
    assert "\x00" not in out
    assert out.splitlines()[0] == ""
    assert {"a", "big"} <= set(out.splitlines())
    keys = [
        json.loads(line)["key"]
        for line in get("store", "--json", "--limit", "1000")[1].splitlines()
    ]
    assert '"\\\n\0é😀' in keys
    rows = list(csv.reader(io.StringIO(get("store", "--csv", "--limit", "1000")[1], newline="")))
    assert rows == [["key"], *([key] for key in keys)]


def test_a_condition_selects_keys_or_windows(get: Get) -> None:
    """With a condition or an order, a store without a key lists its current windows or rows."""
    code, out, _ = get("store", "--where", "n > 20", "--order-by=-n", "--limit", "3")
    head, *lines = out.splitlines()
    assert code == 0
    assert head.split()[:2] == ["key", "n"]
    assert [line.split()[:2] for line in lines] == [["big", str(2**63 - 1)], ["a", "25"]]
    assert get("totals", "--where", "n = 7")[1].splitlines()[1].split()[:2] == ["a", "7"]
    found = get("store", "a", "--where", "n < 4", "--json")[1].splitlines()
    assert [json.loads(line)["n"] for line in found] == [3, 2, 1]
    found = get("store", "--order-by", "n", "--limit", "2", "--csv")[1].splitlines()
    assert len(found) == 3
    for arguments in (["store"], ["store", "a"], ["totals"]):
        code, _, error = get(*arguments, "--where", "n < -1")
        assert code == 1
        assert "condition" in error


def test_windows_are_a_table_newest_first_with_sparklines(get: Get) -> None:
    """Windows are a table with times in UTC, and a sparkline from old to new."""
    code, out, _ = get("store", "a", "--limit", "8")
    lines = out.splitlines()
    assert code == 0
    assert lines[0].split() == [
        "start",
        "(UTC)",
        "end",
        "(UTC)",
        "n",
        "mean",
        "last",
        "all",
        "final",
    ]
    assert lines[1].startswith("1970-01-01 00:00:00.250  1970-01-01 00:00:00.260  25")
    assert lines[9] == ""
    assert [line.split() for line in lines[10:]] == [
        ["n", "▁▂▃▄▅▆▇█", "18", "…", "25"], ["mean", "▁▁▁▁▁▁▁▁", "1.5", "…", "1.5"],
    ]  # fmt: skip


def test_bounds_may_be_times_or_milliseconds(get: Get) -> None:
    """Bounds are inclusive times or milliseconds, and an empty result has exit code 1."""
    out = get("store", "a", "--from", "1970-01-01T00:00:00.020Z", "--to", "40", "--json")[1]
    starts = [json.loads(line)["window_start_ms"] for line in out.splitlines()]
    assert starts == [40, 30, 20]
    code, out, error = get("store", "a", "--from", "2013-01-01")
    assert (code, out) == (1, "")
    assert error == (
        "oriel get: key 'a' has no windows that start within these bounds in store 'store'\n"
    )
    assert get("store", "a", "--from", "yesterday")[2].startswith("oriel get: from_ms must be")


def test_windows_are_merged_to_the_newest_ranges(get: Get) -> None:
    """`--step` shows the newest ranges first, and `--columns` selects their aggregates."""
    arguments = ["turns", "a", "--step", "100ms", "--columns", "n"]
    code, out, _ = get(*arguments, "--limit", "2")
    assert code == 0
    head, *lines = out.splitlines()
    assert head.split() == ["start", "(UTC)", "end", "(UTC)", "n", "final"]
    assert lines[0].startswith("1970-01-01 00:00:00.200  1970-01-01 00:00:00.300  110")
    assert lines[1].startswith("1970-01-01 00:00:00.100  1970-01-01 00:00:00.200  145")
    out = get(*arguments, "--json", "--to", "150", "--order-by", "n")[1]
    assert [json.loads(line)["n"] for line in out.splitlines()] == [45, 145]
    rows = list(csv.DictReader(io.StringIO(get(*arguments, "--csv")[1])))
    assert [row["n"] for row in rows] == ["110", "145", "45"]
    code, _, error = get("turns", "a", "--step", "1s")
    assert (code, "Send columns=n" in error) == (1, True)
    assert get("totals", "a", "--step", "1s")[2].startswith("oriel get: store 'totals' has no")


def test_columns_of_windows_and_rows_are_selected(get: Get) -> None:
    """`--columns` also selects the aggregates of windows, of current windows and of rows."""
    for arguments in (["store", "a"], ["store"], ["totals", "a"], ["totals"]):
        lines = get(*arguments, "--columns", "n", "--json")[1].splitlines()
        names = {name for line in lines for name in json.loads(line)}
        assert ("n" in names, "mean" in names) == (True, False), arguments


def test_csv_is_that_of_the_service(get: Get) -> None:
    """CSV has the bytes of the service, with one header line."""
    rows = list(csv.DictReader(io.StringIO(get("store", "a", "--csv", "--limit", "2")[1])))
    assert [row["window_start_ms"] for row in rows] == ["250", "240"]


def test_csv_of_several_pages_has_its_names_once(
    running: Running, capfd: pytest.CaptureFixture[str]
) -> None:
    """CSV of several pages has one header line."""
    with Client(running.url) as client:
        assert _write_pages(client.window_store("store").fetch("a", page_size=10), CSV) == 0
    rows = list(csv.DictReader(io.StringIO(capfd.readouterr().out)))
    assert [int(row["n"]) for row in rows] == list(range(1, 26))


def test_a_store_without_windows_shows_the_row(get: Get) -> None:
    """A row is shown as a table, JSON and CSV, and options for windows are rejected."""
    code, out, _ = get("totals", "a")
    assert code == 0
    assert "newest record (UTC)" in out.splitlines()[0]
    assert " 7 " in out.splitlines()[1]
    assert json.loads(get("totals", "a", "--json")[1])["n"] == 7
    assert next(csv.DictReader(io.StringIO(get("totals", "a", "--csv")[1])))["n"] == "7"
    for form in ((), ("--json",)):
        code, _, error = get("totals", "b", *form)
        assert code == 1
        assert error == "oriel get: key 'b' has no row in store 'totals'. Did you mean 'a'?\n"
    assert get("totals", "a", "--from", "1")[0] == 1


def test_sessions_are_windows(get: Get) -> None:
    """Sessions are listed by start, newest first."""
    out = get("visits", "a", "--json")[1]
    assert [json.loads(line)["window_end_ms"] for line in out.splitlines()] == [90, 20]


def test_what_is_not_there_names_what_is_near(get: Get) -> None:
    """The error for an unknown store or key suggests a similar one."""
    assert get("stroe", "a") == (
        1, "", "oriel get: store 'stroe' does not exist. Did you mean 'store'?\n",
    )  # fmt: skip
    code, _, error = get("store", "bigg")
    assert code == 1
    assert error.startswith("oriel get: key 'bigg' has no windows in store 'store'. Did you mean")
    assert "'big'" in error


def test_no_service_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    """Without a service, the message has the URL, the reason and a solution in one line."""
    url = f"http://127.0.0.1:{reserved_port()}"
    assert main(["--url", url]) == 1
    error = capfd.readouterr().err
    assert error.startswith(f"oriel get: no response from {url}: ")
    assert error.endswith("Check that `oriel serve` runs there, or set --url to another address\n")
    assert main(["--url", "localhost"]) == 1
    assert "like http://127.0.0.1:8080" in capfd.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [["--watch"], ["store", "--watch"], ["store", "--step", "1m"], ["store", "a", "--step", "1"],
     ["store", "a", "--step", "0s"], ["store", "a", "--watch", "--csv"], ["--from", "1"],
     ["store", "a", "--limit", "0"], ["store", "a", "--limit", "10001"],
     ["store", "a", "--json", "--csv"]],
)  # fmt: skip
def test_options_that_do_not_fit_are_refused(get: Get, arguments: list[str]) -> None:
    """Options that exclude each other are rejected with exit code 2."""
    with pytest.raises(SystemExit, match="2"):
        get(*arguments)


def test_watching_shows_changes_until_it_is_stopped(running: Running) -> None:
    """With JSON, each changed window is one line, and Ctrl-C ends with exit code 0."""
    version = running.table.commit([{"key": "seen", "start": 10, "n": 1}])
    with Client(running.url) as client:
        client.window_store("store").wait_for(Position(version))
    command = [sys.executable, "-P", "-m", "oriel", "get", "store", "seen", "--watch", "--json"]
    process = subprocess.Popen([*command, "--url", running.url], stdout=subprocess.PIPE)
    lines: list[dict[str, int]] = []
    assert process.stdout is not None
    stdout = process.stdout
    reader = threading.Thread(target=lambda: lines.extend(map(json.loads, stdout)))
    reader.start()
    wait_until(lambda: lines, "the line of the first window")
    running.table.commit([{"key": "seen", "start": 20, "n": 2}])
    wait_until(lambda: lines, "the line of the second window", lambda found: len(found) == 2)
    process.send_signal(2)
    assert process.wait(WAIT_SECONDS) == 0
    reader.join(WAIT_SECONDS)
    stdout.close()
    assert [line["n"] for line in lines] == [1, 2]


def test_a_reader_that_has_seen_enough_is_no_failure(running: Running) -> None:
    """A closed output, as in `oriel get store a --json | head -1`, is not an error."""
    command = [sys.executable, "-P", "-m", "oriel", "get", "store", "a", "--url", running.url]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    printed = process.stderr.read()
    process.stderr.close()
    assert (process.wait(WAIT_SECONDS), printed) == (0, b"")


def test_the_token_comes_from_the_environment(get: Get, monkeypatch: pytest.MonkeyPatch) -> None:
    """The token is sent and never shown, even if it cannot be in a header."""
    monkeypatch.setenv("ORIEL_TOKEN", "secret-word")
    code, out, error = get("store", "a")
    assert code == 0
    assert "secret-word" not in out + error
    monkeypatch.setenv("ORIEL_TOKEN", "secret-word\nX: y")
    assert get("store", "a") == (
        1, "", "oriel get: the token has characters that a header cannot contain\n",
    )  # fmt: skip


def test_a_missing_and_a_wrong_token_are_two_messages(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing and invalid tokens have different messages, and both name the variable."""
    StoreTable(tmp_path / "data", make_definition())
    tokens = tmp_path / "tokens.toml"
    assert token.main(["reader", "--file", str(tokens)]) == 0
    right = capfd.readouterr().out.strip()
    serving = Serving(tmp_path / "data", "--tokens", str(tokens))
    url = f"http://127.0.0.1:{serving.port}"
    variable = "Set the environment variable ORIEL_TOKEN to a valid token"
    try:
        for sent, said in (
            (None, "has no token"),
            ("wrong", "is unknown, has expired"),
            (right, ""),
        ):
            if sent is not None:
                monkeypatch.setenv("ORIEL_TOKEN", sent)
            code = main(["--url", url])
            error = capfd.readouterr().err
            assert (code, said in error, variable in error) == (int(bool(said)), True, bool(said))
    finally:
        serving.end()


def _window(**aggregates: object) -> Window:
    return Window("k", 0, aggregates, 0, 1, final=True)


def test_sparklines_are_of_numbers_only() -> None:
    """Sparklines have gaps for nulls, one height for equal values, and no overflow."""
    windows = [_window(n=3, s="x", b=True, f=1.7e308), _window(n=None, s="y", b=True, f=-1.7e308),
               _window(n=1, s="z", b=True, f=0.0)]  # fmt: skip
    assert sparklines(windows) == ["n  ▁ █  1 … 3", "f  ▅▁█  -1.7e+308 … 1.7e+308"]
    assert sparklines([_window(n=5), _window(n=5)]) == ["n  ▁▁  5 … 5"]
    assert sparklines([_window(n=5)]) == []


def test_cells_are_short_and_harmless() -> None:
    """Cells are short, and escape sequences of keys never reach the terminal."""
    assert printable("a\x1b[2Jb\n\u202e") == r"a\x1b[2Jb\n\u202e"
    assert (cell(None), cell(True), cell(1 / 3), cell(2**63)) == (
        "-",
        "yes",
        "0.333333",
        str(2**63),
    )
    assert cell("x" * 100) == "x" * 59 + "…"
    assert table(["a", "bb"], [[1, "x"], [10, "yyy"]]) == " a  bb\n 1  x\n10  yyy"
    assert time_of(10**18) == f"{10**18} ms"
    assert time_of(1357034400000) == "2013-01-01 10:00:00"
    assert time_of(None) is None
    assert windows_table([]) == ""
