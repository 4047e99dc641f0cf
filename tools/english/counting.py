"""Which words and constructions count, and how many a file has."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tools.english import texts

ROOT = Path(__file__).resolve().parents[2]
#: A sentence with more words needs a second reading.
SENTENCE_WORDS = 30

#: What counts, by the name in the list of ceilings. The words are in CONTRIBUTING.md.
CONSTRUCTIONS = {
    name: re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE)
    for name, pattern in {
        "tell": r"tells?|told|telling|hear[sd]?",
        "behind": r"behind|in front of",
        "beside": r"besides?",
        "ask": r"asks?|asked|asking",
        "answer": r"answer(?:s|ed|ing)?",
        "anew": r"anew|go(?:es|ing)? on|went on",
        "is no": r"(?:is|are|was|were) no|has none|have none|none is|is none",
        "is there": r"is there|are there|is away|is gone|are gone",
        "who": r"whoever|who polls|who reads|who asks|who wants|whoso",
        "what": r"what is left|what remains|that of|those that|the one that|one that",
        "mend": r"mend(?:s|ed|ing)?|faults?|fares?",
        "give": r"gives?|gave|takes?|took|makes?|comes?|came|stands?|stood|lies|lay",
        "fragment": r"as ever|so many|else the|or else|if not given|too",
        "of": r"of these|of those|of them|of which|of what",
        "letter": r"(?<!dead )(?<!dead-)letters?",
        "folder": r"folders?",
        "stamp": r"stamps?|stamped",
        "room": r"rooms?|doors?|floors?|houses?",
        "fold": r"folds?|folded|origins?|suborders?|partners?|upkeep|touched",
        "clock": r"silent partitions?|(?<!wall )(?<!wall-)clocks?",
    }.items()
} | {
    "semicolon": re.compile(r";"),
    "link": re.compile(r"\[(?:why|how|which|here)\]", re.IGNORECASE),
}
_SENTENCE = re.compile(r"(?<=[.!?:])\s+(?=[A-Z`\"'])")
_WORD = re.compile(r"[A-Za-z0-9][\w'/-]*")


def count(paragraphs: Iterator[str]) -> Counter[str]:
    """Count each construction, and the sentences that are too long, in texts."""
    found: Counter[str] = Counter()
    for paragraph in paragraphs:
        for name, pattern in CONSTRUCTIONS.items():
            found[name] += len(pattern.findall(paragraph))
        found["long sentence"] += sum(
            len(_WORD.findall(sentence)) > SENTENCE_WORDS for sentence in _SENTENCE.split(paragraph)
        )
    return +found


_NOT_OURS = {"build", "dist", "node_modules"}


def names() -> list[str]:
    """Return the files with texts of the project, as sorted paths from the root."""
    found = (path.relative_to(ROOT).as_posix() for path in _files(ROOT))
    # The patterns are words that count.
    own = ("tools/english/", "tests/tidy/test_english.py")
    texts_of = (name for name in found if name.endswith((".md", ".py")))
    return sorted(name for name in texts_of if not name.startswith(own))


def _files(directory: Path) -> Iterator[Path]:
    for path in directory.iterdir():
        # Links lead to files with names of their own. Tools write into hidden directories.
        if path.is_symlink() or path.name.startswith(".") or path.name in _NOT_OURS:
            continue
        if path.is_dir():
            yield from _files(path)
        else:
            yield path


def totals() -> dict[str, int]:
    """Return how many constructions each file has, without the files that have none."""
    found = {name: count(texts.of_file(ROOT, name)).total() for name in names()}
    return {name: total for name, total in found.items() if total}
