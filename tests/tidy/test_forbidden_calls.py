"""The code has no hidden wall clocks, no randomness without a seed, and no broad handlers."""

import ast
import re
from collections.abc import Iterator

from tests.tidy.project import ROOT, Function, Module, modules, modules_of, offenders, texts

#: A handler that catches an error: `except` or a call of `suppress`.
Handler = ast.ExceptHandler | ast.Call

#: Allowed broad handlers: (file, function) -> reason. A handler that ends by raising again needs no
#: entry. `suppress(Exception)` is a handler.
BROAD_HANDLERS = {
    (
        "pipeline/spark/python/fork_server.py",
        "_run",
    ): "a forked process prints any error and ends with code 1, as Python does",
    (
        "app/guards/turns.py",
        "_finish",
    ): "the reader that waits for the step gets any error of it",
    (
        "app/server/service.py",
        "_serve",
    ): "any failure becomes a problem document; "
    "problem_response logs an unknown error and returns 500",
    (
        "pipeline/run_command.py",
        "_main",
    ): "any failure becomes one line and exit code 1; its trace goes to the run's log",
    (
        "pipeline/run/topology_run.py",
        "run_topology",
    ): "whatever fails where Java has ended, that is the reason; any other is raised again",
    ("tests/e2e/runs_in_one_process.py", "_main"): "the test that asked is told, and others go on",
    ("tests/app/api_client.py", "_call"): "an error after a whole answer is the server's to log; "
    "any other is raised again",
    (
        "pipeline/run/batches/spark_runner.py",
        "run_a_job",
    ): "the job only warms up workers: if the session stops while the job runs, PySpark fails in "
    "many ways, and the batches report any other failure",
    ("storage/tailer/store.py", "advance"): "a store that fails is told of in its status and tried "
    "again; it must not stop the tailer of the others",
    ("pipeline/commit/maintenance.py", "_step"): "a table that can't be kept small is warned of "
    "and tried again; that must not stop the stream",
    ("pipeline/commit/maintenance.py", "_merge_small"): "the same",
}

_WALL_CLOCKS = {"time", "time_ns", "now", "utcnow", "today", "monotonic", "perf_counter"}
_RANDOM_MODULES = {"random", "secrets"}
_NUMPY_RANDOM = {"np.random", "numpy.random"}
#: Secret values, which must not be reproducible.
_SECRET = {"token_urlsafe"}
_SEEDED = {"Random", "default_rng", "Generator", "SeedSequence", "RandomState"}


def test_the_window_engine_has_no_clock() -> None:
    """A window is a function of its records, so the engine uses no wall clock or randomness."""
    forbidden = {"time", "random", "secrets", "uuid"}
    found = [
        f"{m.name}:{line} imports {name}"
        for m in modules_of("pipeline/windows")
        for name, line in m.imported()
        if name.split(".")[0] in forbidden
    ]
    found += [
        f"{m.name}:{call.lineno} {_dotted(call.func)}()"
        for m in modules_of("pipeline/windows")
        for call in _calls(m)
        if _dotted(call.func).startswith(("datetime.", "date.", "np.random", "numpy.random"))
        and _dotted(call.func).rpartition(".")[2] in _WALL_CLOCKS | _SEEDED
    ]
    assert not found, f"pass times in as values:{offenders(found)}"


def test_randomness_is_seeded() -> None:
    """Random values have a seed, so that each run can be repeated."""
    found = []
    for module in modules():
        # A parameter can have the name `random`, so only the module of that name counts.
        owners = (_RANDOM_MODULES & _imported_whole(module)) | _NUMPY_RANDOM
        for call in _calls(module):
            owner, _, name = _dotted(call.func).rpartition(".")
            if owner not in owners or (owner == "secrets" and name in _SECRET):
                continue
            if name not in _SEEDED or not (call.args or call.keywords):
                found.append(f"{module.name}:{call.lineno} {owner}.{name}()")
    assert not found, (
        f"use random.Random(seed) or default_rng(seed), seed in the message:{offenders(found)}"
    )


def test_no_broad_handlers() -> None:
    """A handler names the expected errors, so that unexpected errors stay visible."""
    found = [
        f"{module.name}:{handler.lineno} in {function}"
        for module in modules()
        for function, handler in _broad_handlers(module)
        if not _raises(handler) and (module.name, function) not in BROAD_HANDLERS
    ]
    assert not found, (
        f"catch the errors that you expect, or add a reason to BROAD_HANDLERS:{offenders(found)}"
    )


def test_reasons_for_broad_handlers_are_still_needed() -> None:
    """An entry of the list is removed with its handler."""
    broad = {
        (module.name, function) for module in modules() for function, _ in _broad_handlers(module)
    }
    found = [str(place) for place in BROAD_HANDLERS if place not in broad]
    assert not found, (
        f"remove from BROAD_HANDLERS in {__file__[len(str(ROOT)) :]}:{offenders(found)}"
    )


def _calls(module: Module) -> Iterator[ast.Call]:
    return (node for node in module.nodes if isinstance(node, ast.Call))


def _imported_whole(module: Module) -> set[str]:
    """Return the names of modules imported as a whole, without modules of `from` imports."""
    imports = [node for node in module.nodes if isinstance(node, ast.Import)]
    return {alias.name for node in imports for alias in node.names}


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _broad_handlers(module: Module) -> Iterator[tuple[str, Handler]]:
    """Yield each handler that catches every error, and the innermost function around it."""
    handlers = [
        node
        for node in module.nodes
        if (isinstance(node, ast.ExceptHandler) and _is_broad(node.type))
        or (isinstance(node, ast.Call) and _dotted(node.func).rpartition(".")[2] == "suppress"
            and any(map(_is_broad, node.args)))
    ]  # fmt: skip
    for handler in handlers:
        around = [f for f in module.functions() if f.lineno <= handler.lineno <= _last_line(f)]
        innermost = max(around, key=lambda function: function.lineno, default=None)
        yield "the module" if innermost is None else innermost.name, handler


def _last_line(function: Function) -> int:
    assert function.end_lineno is not None
    return function.end_lineno


def _is_broad(kind: ast.expr | None) -> bool:
    if kind is None:
        return True
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(_dotted(one) in {"Exception", "BaseException"} for one in kinds)


def _raises(handler: Handler) -> bool:
    return isinstance(handler, ast.ExceptHandler) and isinstance(handler.body[-1], ast.Raise)


def test_what_coverage_leaves_out_has_a_reason() -> None:
    """A comment that excludes code from coverage has a reason after a dash."""
    pragma = re.compile(r"#\s*pragma:\s*no\s+(cover|branch)(?! - \S)")
    found = [
        f"{name}:{number}"
        for name, text in texts()
        for number, line in enumerate(text.splitlines(), 1)
        if name.endswith(".py") and pragma.search(line)
    ]
    assert not found, f"write `# pragma: no cover - REASON`:{offenders(found)}"
