"""Hostile lines: JSON of wrong types, and text that is almost JSON."""

import json
from random import Random

import pyarrow as pa

#: Numbers at the limits of columns, and in unusual spellings.
NUMBERS = [
    "0", "-0", "1", "-1", "7", "12", "-0.0", "0.0", "1.5", "-2.25", "1e3", "1E+2", "25e-1", "1.0",
    "127", "128", "-128", "32767", "32768", "-32768", "-32769", "2147483647", "2147483648",
    "-2147483648", "-2147483649", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "-9223372036854775809", "99999999999999999999999", "9007199254740993",
    "16777217", "16777219", "16777217.000000000001", "9223372586610589697", "9007199791611905",
    "3.4028235e38", "3.4028236e38", "1e39", "1e-46", "1e400", "-1e400", "1e-400", "-1e-400",
    "4.9e-324", "0.1", "0.30000000000000004", "123456789012345678", "0e5", "-0e5", "-0E-5",
    "1e308", "1e309", "1" * 320, "1" * 1000, "1" * 1001, "0." + "1" * 1000, "0." + "1" * 1001,
    "0." + "1" * 900 + "e" + "1" * 99, "0." + "1" * 900 + "e" + "1" * 100, "0e" + "1" * 1000,
    "1e0005", "1700000000000", "253402300799999", "253402300800000",
]  # fmt: skip
NO_NUMBERS = [
    "01", "-01", "1.", ".5", "+1", "1e", "1e+", "--1", "0x1", "1_0", "NaN", "-NaN", "Infinity",
    "-Infinity", "Inf", "+INF", "1f", "1,5", "1 2", "٣",
]  # fmt: skip
#: Contents of strings, without the quotes.
TEXTS = [
    "", "a", "b", "5", "-1", "true", "null", "NaN", "Info", "-0", "-0,", ": NaN ", "~line", "é",
    "\U0001f600", "{}", "}{", "} {", "[1]", r"\u0041", r"\ud83d\ude00", r"\uD83D\uDE00", r"\u0000",
    r"\n\t\"\\\/\b\f\r", r"\\ud800", "\x7f", "\u2028", "\ufeff", "k" * 40, r"key\": 5, \"",
    "2024-01-01", "1e400",
]  # fmt: skip
NO_TEXTS = [
    r"\ud800", r"\uDC00", r"\ude00\ud83d", r"\ud83d\ud83d\ude00", r"\x", r"\u12", r"\'", "\\", "\t",
    "\0", "\x01", "\n", r"\u 123", r"\uD800\u0041",
]  # fmt: skip
WORDS = ["true", "false", "null", "True", "tru", "nul", "None", "undefined"]
BLANKS = ["", "", "", "", " ", "\t", "\r", "\n", "  ", "\x0b", "\x0c", "\xa0", "/**/"]
PIECES = [
    b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b" ", b"\0", b"\n", b"\r", b"\xff", b"\xc3",
    b"\xed\xa0\x80", b"\xef\xbb\xbf", b"null", b"{}", b"}{", b"} {", b"]}", b'"~line"',
    b'],"~line":[', b",null]}", b"NaN", b"-0", b"e", b"1", b"'", b"//",
]  # fmt: skip


class HostileLines:
    """Creates lines for rows of a type. Most of the lines are nearly valid."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def line(self, row_type: pa.StructType) -> bytes:
        """Return one line."""
        text = self._value(row_type)
        if self._rarely(0.1):
            text = self._blank() + text + self._blank()
        line = text.encode("utf-8", "surrogatepass")
        while self._rarely(0.12):
            line = self._mutated(line)
        return line

    def _rarely(self, probability: float) -> bool:
        return self._random.random() < probability

    def _any(self, some: list[str]) -> str:
        return self._random.choice(some)

    def _blank(self) -> str:
        return self._any(BLANKS[:9] if self._rarely(0.9) else BLANKS)

    def _mutated(self, line: bytes) -> bytes:
        at = self._random.randrange(len(line) + 1)
        end = min(len(line), at + self._random.randrange(4))
        kind = self._random.randrange(5)
        if kind == 0:
            return line[:at] + line[end:]
        if kind == 1:
            return line[:at]
        if kind == 2:
            return line + self._random.choice(PIECES) + (line if self._rarely(0.3) else b"")
        return line[:at] + self._random.choice(PIECES) + line[end if kind == 3 else at :]

    def _value(self, column_type: pa.DataType, depth: int = 0) -> str:
        if self._rarely(0.04):
            return "null"
        if self._rarely(0.05):
            column_type = self._random.choice([
                pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.list_(pa.int64()),
                pa.struct([("a", pa.int64())]), pa.struct([]),
            ])  # fmt: skip
        types = pa.types
        if types.is_struct(column_type):
            return self._object(column_type, depth)
        if types.is_list(column_type):
            items = [
                self._value(column_type.value_type, depth + 1)
                for _ in range(self._random.choice([0, 1, 2, 5]))
            ]
            return "[" + self._blank() + ",".join(items) + self._blank() + "]"
        if types.is_string(column_type):
            return self._text()
        if types.is_boolean(column_type):
            return self._any(WORDS if self._rarely(0.05) else WORDS[:3])
        return self._number(whole=types.is_integer(column_type))

    def _number(self, *, whole: bool) -> str:
        if self._rarely(0.05):
            return self._any(NO_NUMBERS)
        if self._rarely(0.4):
            return self._any(NUMBERS)
        if whole:
            return str(self._random.randrange(-40, 40))
        return repr(self._random.choice([1, 1e-3, 1e6]) * self._random.randrange(-9999, 9999))

    def _text(self) -> str:
        texts = NO_TEXTS if self._rarely(0.02) else TEXTS
        return '"' + "".join(self._random.choices(texts, k=self._random.choice([1, 1, 2]))) + '"'

    def _object(self, row_type: pa.StructType, depth: int) -> str:
        pairs = []
        for field in row_type:
            if not self._rarely(0.15):
                pairs.append((field.name, self._value(field.type, depth + 1)))
            if self._rarely(0.02):
                pairs.append((field.name, self._value(field.type, depth + 1)))
        if self._rarely(0.1) and depth < 4:
            ignored = self._random.choice([pa.int64(), pa.float64(), pa.string(), row_type])
            name = self._any(["x", "KEY", "Value", "", "key ", "end", *TEXTS])
            pairs.append((name, self._value(ignored, depth + 2)))
        if self._rarely(0.3):
            self._random.shuffle(pairs)
        blank = self._blank() if self._rarely(0.1) else ""
        return "{" + blank + ",".join(f"{self._name(n)}:{blank}{v}" for n, v in pairs) + "}"

    def _name(self, name: str) -> str:
        if self._rarely(0.01) and name:
            return f'"\\u{ord(name[0]):04x}{name[1:]}"'
        return f'"{name}"' if "\\" in name else json.dumps(name, ensure_ascii=False)
