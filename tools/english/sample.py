"""Print random sentences of the pages and random messages, for readers who rate them.

    python -m tools.english.sample [--seed 1] [--sentences 100] [--messages 60]

The seed is printed, so that others can rate the same sample. Pages are README.md and docs/ without
decision records. Messages are the strings of the product with several words.
"""

import argparse
import ast
import random
import re
import sys
from collections.abc import Iterator, Sequence

from tools.english import texts
from tools.english.counting import ROOT, names

_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"'(])")
_PRODUCT = ("app/", "client/", "pipeline/", "storage/", "src/oriel/doctor/")
#: Fewer words are a title or a cell of a table.
_SENTENCE_WORDS = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the sample."""
    parser = argparse.ArgumentParser(prog="python -m tools.english.sample")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sentences", type=int, default=100)
    parser.add_argument("--messages", type=int, default=60)
    options = parser.parse_args(arguments)
    choose = random.Random(options.seed)  # noqa: S311 - a sample
    print(f"seed {options.seed}")
    for title, found, count in (
        ("Sentences", sorted(set(_sentences())), options.sentences),
        ("Messages", sorted(set(_messages())), options.messages),
    ):
        print(f"\n{title}\n")
        for index, (name, text) in enumerate(choose.sample(found, min(count, len(found))), 1):
            print(f"{index}. {name}: {text}")
    return 0


def _sentences() -> Iterator[tuple[str, str]]:
    """Yield the page and the text of each sentence."""
    for name in names():
        is_page = name == "README.md" or name.startswith("docs/")
        if not is_page or not name.endswith(".md") or name.startswith("docs/decisions/"):
            continue
        text = re.sub(r"`([^`\n]*)`", r"\1", (ROOT / name).read_text(encoding="utf-8"))
        for paragraph in texts.markdown(text):
            for sentence in _END.split(paragraph):
                if len(sentence.split()) >= _SENTENCE_WORDS and sentence.endswith((".", "!", "?")):
                    yield name, sentence


def _messages() -> Iterator[tuple[str, str]]:
    """Yield the module and the text of each message that the product raises or logs."""
    for name in names():
        if not name.startswith(_PRODUCT):
            continue
        tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            match node:
                case ast.Assign(targets=[ast.Name(id="message" | "reason" | "line")], value=value):
                    if len((text := ast.unparse(value)).split()) >= _SENTENCE_WORDS:
                        yield name, text


if __name__ == "__main__":
    sys.exit(main())
