"""Lower the ceilings, or print what counts in files: ``python -m tools.english [FILE...]``."""

import sys

import orjson

from tools.english import texts
from tools.english.counting import ROOT, count, totals
from tools.english.identifiers import identifier_totals, odd_identifiers

CEILINGS = ROOT / "tools" / "english" / "ceilings.json"
IDENTIFIER_CEILINGS = CEILINGS.with_name("identifier_ceilings.json")


def lowered(ceilings: dict[str, int], found: dict[str, int]) -> dict[str, int]:
    """Return the ceilings that files need today, none above its ceiling before."""
    return {name: min(ceiling, found[name]) for name, ceiling in ceilings.items() if name in found}


def main(names: list[str]) -> int:
    """Lower the ceilings, or print the texts of files in which something counts."""
    for name in names:
        for paragraph in texts.of_file(ROOT, name):
            if found := count(iter([paragraph])):
                print(f"{name}: {dict(found)}\n    {paragraph}")
        if name.endswith(".py") and (odd := odd_identifiers((ROOT / name).read_text())):
            print(f"{name}: {', '.join(odd)}")
    found_in = {} if names else {CEILINGS: totals(), IDENTIFIER_CEILINGS: identifier_totals()}
    for path, of_files in found_in.items():
        ceilings = lowered(orjson.loads(path.read_bytes()), of_files)
        path.write_bytes(orjson.dumps(ceilings, option=orjson.OPT_INDENT_2) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
