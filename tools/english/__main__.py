"""Lower the ceilings, or print what counts in files: ``python -m tools.english [FILE...]``."""

import sys

import orjson

from tools.english import texts
from tools.english.counting import ROOT, count, totals

CEILINGS = ROOT / "tools" / "english" / "ceilings.json"


def lowered(ceilings: dict[str, int], found: dict[str, int]) -> dict[str, int]:
    """Return the ceilings that files need today, none above its ceiling before."""
    return {name: min(ceiling, found[name]) for name, ceiling in ceilings.items() if name in found}


def main(names: list[str]) -> int:
    """Lower the ceilings, or print the texts of files in which something counts."""
    for name in names:
        for paragraph in texts.of_file(ROOT, name):
            if found := count(iter([paragraph])):
                print(f"{name}: {dict(found)}\n    {paragraph}")
    if not names:
        ceilings = orjson.loads(CEILINGS.read_bytes())
        content = orjson.dumps(lowered(ceilings, totals()), option=orjson.OPT_INDENT_2)
        CEILINGS.write_bytes(content + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
