"""Tests of damaged token files: no damage grants more access than the complete file."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import pytest

from oriel.app.guards import Access, token
from oriel.app.guards.tokens import InvalidTokenFile, TokenFile, parse_tokens, read_text
from tests.app.serving import Serving
from tests.storage.waiting import wait_until

Tokens = dict[bytes, tuple[Access, datetime | None]]

#: The format of an earlier version of `oriel token`: limits follow the sha256.
_UNSEALED = """\
# Tokens of our team.
[[token]]
name = "Zoë"
sha256 = "{:064x}"
stores = ["departures*", "other"]
key_prefixes = ["EWR", "ü"]
expires = 2037-01-31T00:00:00Z

[[token]]
name = "all"
sha256 = "{:064x}"

[[token]]   # of the dashboard
name = "dashboard"
expires = 2037-01-31T00:00:00+01:00
sha256 = "{:064x}"
stores = ["departures"]
key_prefixes = [
    "EWR",
]
""".format(*range(3))


def tokens_of(file: Path) -> Tokens:
    """Return the access and the expiry of each token of a file by its digest."""
    read = parse_tokens(file, read_text(file))
    return {digest: (one.access, one.expires) for digest, one in read.items()}


def seal(file: Path) -> None:
    """Seal a file as `oriel token --seal` does."""
    assert token.main(["--seal", "--file", str(file)]) == 0


def make(file: Path, name: str, *options: str) -> None:
    """Create a token as `oriel token` does."""
    assert token.main([name, "--file", str(file), *options]) == 0


@pytest.fixture(params=["made", "sealed by hand"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a file in which each token has a seal."""
    file = tmp_path / "tokens.toml"
    if request.param == "made":
        make(file, "dashboard", "--store", "departures*", "--key-prefix", "EWR", "--days", "9")
        make(file, "reporter", "--store", "departures", "--store", "other")
        make(file, "all")
        make(file, "Zoë\n[[token]]\n", "--key-prefix", "ü")
    else:
        file.write_text(_UNSEALED, encoding="utf-8")
        seal(file)
    return file


def assert_no_more(file: Path, content: bytes, whole: Tokens) -> bool:
    """Check that a damaged file grants no more access, and return True if it is valid."""
    file.write_bytes(content)
    try:
        tokens = tokens_of(file)
    except InvalidTokenFile as error:
        assert str(file) in str(error)  # noqa: PT017 - it is one of two valid results
        return False
    assert tokens.items() <= whole.items(), content
    return True


def test_a_file_that_is_cut_at_any_byte_grants_no_more_access(file: Path) -> None:
    """A cut file is invalid, or has fewer tokens."""
    content, whole = file.read_bytes(), tokens_of(file)
    valid = [
        cut for cut in range(len(content)) if assert_no_more(file, content[:cut], whole)
    ]  # fmt: skip
    # Valid cuts are in the first comments, and after complete tokens with their blank lines.
    assert len(valid) < 40
    assert len(whole) == content.count(b"sha256")


def test_a_file_with_a_flipped_bit_grants_no_more_access(file: Path) -> None:
    """A file with any flipped bit grants no more access."""
    content, whole = file.read_bytes(), tokens_of(file)
    for position, byte in enumerate(content):
        for bit in range(8):
            flipped = bytes([byte ^ 1 << bit])
            damaged = content[:position] + flipped + content[position + 1 :]
            assert_no_more(file, damaged, whole)


def test_many_tokens_are_safe_at_any_cut(tmp_path: Path) -> None:
    """A sealed file with 30 tokens of an earlier version is safe if it is cut at any line end."""
    file = tmp_path / "tokens.toml"
    file.write_text(
        "".join(
            f'\n[[token]]\nname = "{number}"\nsha256 = "{number:064x}"\nstores = ["{number}"]\n'
            f'key_prefixes = ["{number}"]\nexpires = 2037-01-31T00:00:00Z\n'
            for number in range(30)
        )
    )
    whole = tokens_of(file)
    seal(file)
    assert tokens_of(file) == whole
    content = file.read_bytes()
    for cut in (position for position, byte in enumerate(content) if byte == ord("\n")):
        assert_no_more(file, content[:cut], whole)
        assert_no_more(file, content[: cut + 1], whole)


@pytest.mark.parametrize("is_sealed", [False, True])
@pytest.mark.parametrize("order", [1, -1])
def test_a_running_service_grants_no_more_access_at_any_cut(
    tmp_path: Path, is_sealed: bool, order: int, caplog: pytest.LogCaptureFixture
) -> None:
    """While the file shrinks or grows by single bytes, the service never grants more access."""
    file = tmp_path / "tokens.toml"
    file.write_text(_UNSEALED, encoding="utf-8")
    if is_sealed:
        seal(file)
    content, whole = file.read_bytes(), tokens_of(file)
    tokens = TokenFile(file)
    for cut in range(len(content))[::order]:
        file.write_bytes(content[:cut])
        tokens._checked_at, tokens._identity = 0.0, None
        tokens.follow()
        for digest, one in tokens._tokens.items():
            assert (one.access, one.expires) == whole[digest], content[:cut]
    assert "The previous tokens stay in use" in caplog.text


def test_a_cut_token_without_a_seal_is_rejected_while_the_service_runs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The error names the lost limit once, and a new seal accepts the change."""
    file = tmp_path / "tokens.toml"
    file.write_text(_UNSEALED, encoding="utf-8")
    tokens = TokenFile(file)
    assert "2 tokens have limits but no seal, for example 'Zoë'" in caplog.text
    caplog.clear()
    file.write_text(_UNSEALED.partition("key_prefixes = [\n")[0], encoding="utf-8")
    for _ in range(3):
        tokens._checked_at = 0.0
        tokens.follow()
    (record,) = caplog.records
    assert "the last token, 'dashboard', no longer has 'key_prefixes'" in record.getMessage()
    assert f"run `oriel token --seal --file {file}`" in record.getMessage()
    seal(file)
    tokens._checked_at = 0.0
    tokens.follow()
    granted = {one.access.name: one.access for one in tokens._tokens.values()}
    assert granted["dashboard"] == Access("dashboard", ("departures",))
    assert "tokens=3" in caplog.messages[-1]


def test_an_edited_token_needs_a_new_seal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`oriel token --seal` accepts an edited token and keeps comments. `oriel token` rejects it."""
    file = tmp_path / "tokens.toml"
    make(file, "one", "--store", "departures")
    edited = "# Our tokens.\n" + file.read_text().replace('["departures"]', '["*"] # all')
    file.write_text(edited)
    with pytest.raises(InvalidTokenFile, match=r"'one'\) differs from its seal\. .*--seal --file"):
        tokens_of(file)
    capsys.readouterr()
    assert token.main(["two", "--file", str(file)]) == 1
    said = capsys.readouterr()
    assert (said.out, file.read_text()) == ("", edited)
    assert "differs from its seal" in said.err
    seal(file)
    assert [access.stores for access, _ in tokens_of(file).values()] == [("*",)]
    assert edited.splitlines()[0] in file.read_text()
    assert file.read_text().endswith('stores = ["*"] # all\n')


def test_limits_that_are_added_by_hand_hold(tmp_path: Path) -> None:
    """A limit appended to a sealed token needs no new seal, and a cut does not remove it."""
    file = tmp_path / "tokens.toml"
    make(file, "one")
    with file.open("a") as appending:
        appending.write('key_prefixes = ["EWR"]\n')
    tokens = TokenFile(file)
    file.write_bytes(file.read_bytes().partition(b"key_prefixes")[0])
    tokens._checked_at = 0.0
    tokens.follow()
    (one,) = tokens._tokens.values()
    assert one.access.key_prefixes == ("EWR",)


def test_a_new_token_seals_the_others(tmp_path: Path) -> None:
    """`oriel token` seals the tokens of an earlier version, which keep their access."""
    file = tmp_path / "tokens.toml"
    file.write_text(_UNSEALED.rstrip("\n"), encoding="utf-8")
    whole = tokens_of(file)
    make(file, "new")
    assert whole.items() < tokens_of(file).items()
    assert read_text(file).count("\nseal = ") == 4
    assert "# of the dashboard\n" in read_text(file)


@pytest.mark.parametrize(
    "content",
    [
        'token = [{{name = "x", sha256 = "{0}"}}]',
        '[[token]]\nname = """\n[[token]]\n"""\nsha256 = "{0}"\n',
        '[[token]]\nname = "x"\nseal = "y"\nsha256 = "{0}"\n',
        '[["token"]]\nname = "x"\nsha256 = "{0}"\n',
    ],
)
def test_what_cannot_be_sealed_stays_unchanged(
    tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that cannot be sealed stays unchanged, and the error shows the valid format."""
    file = tmp_path / "tokens.toml"
    file.write_text(content.format("0" * 64))
    assert token.main(["--seal", "--file", str(file)]) == 1
    assert "each token must be a table [[token]]" in capsys.readouterr().err
    assert file.read_text() == content.format("0" * 64)


def test_two_tokens_with_one_digest_are_rejected(tmp_path: Path) -> None:
    """Two tokens with one digest are rejected, because a cut between them could grant more."""
    file = tmp_path / "tokens.toml"
    entry = '[[token]]\nname = "x"\nsha256 = "{}"\n'.format("0" * 64)
    file.write_text(f'{entry}{entry}stores = ["a"]\n')
    with pytest.raises(InvalidTokenFile, match="has the sha256 of another token"):
        tokens_of(file)


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    """On a full disk (simulated by a file size limit), the file stays and no draft remains."""
    file = tmp_path / "tokens.toml"
    for number in range(8):
        make(file, f"token {number}", "--key-prefix", "EWR")
    content = file.read_bytes()
    # Use -B, because the limit would also truncate the files of compiled modules.
    command = f"ulimit -f 1; exec {sys.executable} -B -P -m oriel token more --file {file}"
    made = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (made.returncode, made.stdout) == (1, "")
    assert made.stderr == f"oriel token: {file}: cannot write the file: File too large\n"
    assert file.read_bytes() == content
    assert [one.name for one in tmp_path.iterdir()] == ["tokens.toml"]


def test_tokens_that_are_made_at_once_are_all_in_the_file(tmp_path: Path) -> None:
    """Concurrent commands add all tokens, and keep the file's mode and a link to it."""
    file, link = tmp_path / "tokens.toml", tmp_path / "link.toml"
    make(file, "first")
    file.chmod(0o640)
    link.symlink_to(file)
    names = [f"token {number}" for number in range(8)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda name: make(link, name), names))
    assert sorted(access.name for access, _ in tokens_of(file).values()) == ["first", *names]
    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("options", [[], ["one", "--seal"]])
def test_a_name_and_a_seal_exclude_each_other(options: list[str]) -> None:
    """The command requires exactly one of a name and `--seal`."""
    with pytest.raises(SystemExit):
        token.main([*options, "--file", "tokens.toml"])


@pytest.fixture
def started() -> Iterator[Callable[..., Serving]]:
    """Return a function that starts a service, which ends with the test."""
    services: list[Serving] = []

    def start(data: Path, *options: str) -> Serving:
        services.append(Serving(data, *options))
        return services[-1]

    yield start
    for service in services:
        with suppress(ProcessLookupError):
            service.end()


def test_a_service_without_requests_follows_its_token_file(
    tmp_path: Path, started: Callable[..., Serving]
) -> None:
    """A cut file is logged as an error, also if no request arrives."""
    file = tmp_path / "tokens.toml"
    make(file, "one", "--store", "departures")
    serving = started(tmp_path / "data", "--tokens", str(file))
    assert serving.get("/v1/stores").status == 401
    file.write_bytes(file.read_bytes().partition(b"stores")[0])
    wait_until(
        serving.stderr.read_text, "the error", lambda text: "differs from its seal" in text
    )  # fmt: skip
