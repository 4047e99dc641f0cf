"""The TypeScript client with node: its types are those of the API, and the page's examples run.

The fixture runs the commands of client/typescript/README.md and of the page.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import orjson
import pytest

from oriel.storage import AggregateSpec, StoreKind, WindowSpec
from tests.app.serving import Serving
from tests.app.test_access import token_in
from tests.storage.store_tables import StoreTable, make_definition
from tests.tidy.project import ROOT

pytestmark = pytest.mark.slow

_CLIENT = ROOT / "client" / "typescript"
_PAGE = ROOT / "docs" / "how-to" / "use-the-typescript-client.md"
_URL = "http://127.0.0.1:8080"
_INSTALL_SECONDS = 300

#: Reads with a token and a key that needs encoding, and a response that is not from Oriel.
_PROGRAM = """\
import { oriel, OrielProblem, unwrap } from "oriel-client";
const [url = "", token = ""] = process.argv.slice(2);
let calls = 0;
const client = oriel(url, { token: async () => (calls++, token) });
const path = { store: "departures_by_origin", key: "a/b c?d#é%" };
const query = { min_offset: ["events:0:1", "events:0:2"] };
const request = { params: { path, query } };
const { windows } = await unwrap(client.GET("/v1/stores/{store}/latest/{key}", request));
console.log(windows[0]?.key, calls);
for (const other of [oriel(url), oriel(url, { token: "wrong" })]) {
  const { error } = await other.GET("/v1/stores");
  console.log(error?.code, error?.status);
}
const html = async () => new Response("<html>", { status: 502 });
try {
  await unwrap(oriel(url, { fetch: html }).GET("/v1/stores"));
} catch (error) {
  console.log(error instanceof OrielProblem, error instanceof Error);
}
const csv = await client.GET("/v1/stores/{store}/latest/{key}", {
  ...request, parseAs: "text", headers: { Accept: "text/csv" },
});
console.log(String(csv.data).split(",")[0]);
export const wrong = () => [
  // @ts-expect-error This path does not exist.
  client.GET("/v1/nothing"),
  // @ts-expect-error The key is missing.
  client.GET("/v1/stores/{store}/fetch/{key}", { params: { path: { store: "s" } } }),
  // @ts-expect-error This operation has no parameter.
  client.GET("/v1/stores", { params: { query: { limit: 1 } } }),
  // @ts-expect-error These windows have no such field.
  windows.columns,
];
"""


class Built(NamedTuple):
    """A copy of the client with its packages, and a project that uses it."""

    client: Path
    project: Path

    def run(self, program: str, *arguments: str) -> list[str]:
        """Compile a program of the project, run it, and return the printed lines."""
        (self.project / "program.ts").write_text(program)
        compiler = self.client / "node_modules" / "typescript" / "bin" / "tsc"
        _run(self.project, "node", str(compiler))
        return _run(self.project, "node", "program.js", *arguments).splitlines()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Install the locked packages in a copy of the client, and build it."""
    missing = [name for name in ("node", "npm") if shutil.which(name) is None]
    if missing:
        reason = f"{' and '.join(missing)} not found (Debian: apt-get install nodejs npm)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    directory = tmp_path_factory.mktemp("typescript")
    client, project = directory / "client" / "typescript", directory / "project"
    unused = shutil.ignore_patterns("node_modules", "dist")
    shutil.copytree(_CLIENT, client, ignore=unused)
    shutil.copytree(ROOT / "openapi", directory / "openapi")
    _run(client, "npm", "ci", "--no-audit", "--no-fund")
    _run(client, "npm", "run", "build")
    (project / "node_modules").mkdir(parents=True)
    (project / "node_modules" / "oriel-client").symlink_to(client)
    (project / "node_modules" / "@types").symlink_to(client / "node_modules" / "@types")
    (project / "package.json").write_text('{"type": "module"}')
    settings = orjson.loads((client / "tsconfig.json").read_bytes())["compilerOptions"]
    kept = {name: settings[name] for name in ("target", "module", "strict", "types")}
    (project / "tsconfig.json").write_bytes(orjson.dumps({"compilerOptions": kept}))
    return Built(client, project)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the data directory of a store of departures."""
    directory = tmp_path_factory.mktemp("departures")
    definition = make_definition(
        "departures_by_origin", window=WindowSpec(StoreKind.TUMBLING, 1_000, 0)
    )
    aggregates = (AggregateSpec("departures", "count()", "long"),)
    table = StoreTable(directory, replace(definition, aggregates=aggregates))
    table.commit([
        *({"key": "EWR", "start": 1_000 * number, "departures": 7} for number in range(1_200)),
        {"key": "JFK", "start": 0, "departures": 9},
        {"key": "LGA", "start": 0, "departures": 3},
        {"key": "a/b c?d#é%", "start": 0, "departures": 1},
    ])  # fmt: skip
    return directory


@pytest.fixture
def serving(data: Path) -> Iterator[Serving]:
    """Return a service of that store."""
    service = Serving(data)
    service.wait_until_ready("departures_by_origin")
    yield service
    service.end()


def _run(directory: Path, *command: str) -> str:
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, check=False,
        timeout=_INSTALL_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_types_are_those_of_the_document(built: Built) -> None:
    """The committed types are what the generator writes from the committed document."""
    written = built.client / "again.ts"
    _run(built.client, "node", "generate.mjs", "../../openapi/oriel.json", str(written))
    message = "run: cd client/typescript && npm ci && npm run generate"
    assert written.read_text() == (_CLIENT / "schema.ts").read_text(), message
    written.unlink()


def test_the_lock_file_has_a_digest_of_each_package() -> None:
    """The lock file pins each package by its digest, and names no registry."""
    lock = orjson.loads((_CLIENT / "package-lock.json").read_bytes())
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert len(packages) > 3
    assert [name for name, one in packages.items() if "integrity" not in one] == []
    assert [name for name, one in packages.items() if "resolved" in one] == []


def test_the_examples_of_the_page_run(built: Built, serving: Serving) -> None:
    """The page's blocks are one program, which compiles without an error."""
    program = "\n".join(
        re.findall(r"^```ts\n(.*?)^```$", _PAGE.read_text(), re.MULTILINE | re.DOTALL)
    )
    lines = built.run(program.replace(_URL, f"http://127.0.0.1:{serving.port}"))
    assert "  departures: 7," in lines
    assert [line for line in lines if "windows at" in line] == [
        "1000 windows at version 1",
        "200 windows at version 1",
    ]
    assert lines[-4:] == [
        "[ 'JFK', 'EWR' ]", "2", "unknown-store 404", "departures_by_origin true",
    ]  # fmt: skip


def test_tokens_keys_and_other_servers(built: Built, data: Path, tmp_path: Path) -> None:
    """The client encodes keys, repeats parameters, sends tokens, and throws each problem.

    The compiler rejects an unknown path, field or parameter, and a missing parameter.
    """
    file = tmp_path / "tokens.toml"
    token = token_in(file, "all")
    service = Serving(data, "--tokens", str(file))
    try:
        service.wait_for_status("/readyz", 401)
        lines = built.run(_PROGRAM, f"http://127.0.0.1:{service.port}", token)
    finally:
        assert service.end() == 0
    assert lines == [
        "a/b c?d#é% 1", "unauthorized 401", "unauthorized 401", "false true", '"key"',
    ]  # fmt: skip
