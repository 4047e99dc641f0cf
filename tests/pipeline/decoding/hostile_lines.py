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
#: Numbers at the limits of DECIMAL columns: their digits, rounding, and Java's notations.
DECIMALS = [
    "0.005", "-0.005", "0.0049", "1.005", "99999999.99", "99999999.994", "99999999.995", "1e8",
    "100000000", "0.9995", "0.99949", "0e5", "0e-5", "0e-1000", "1e-1000", "0e2147483647",
    "0e2147483648", "0e-2147483647", "1e2147483647", "1e-2147483648", "1e-600000000",
    "0.0e-2147483647", "9" * 38,
    "9" * 39, "9" * 38 + ".5", "9" * 38 + ".4", "0." + "9" * 38, "0." + "9" * 38 + "5",
    "0." + "0" * 37 + "5", "0." + "0" * 38 + "5", "0." + "0" * 60, "0." + "0" * 90 + "1",
    "1" * 30 + "e-25", "1" + "0" * 90 + "e-90",
]  # fmt: skip
JAVA_DECIMALS = [
    "+1", ".5", "5.", "-.5", "1,234.5", ",1", ",", "+,1", "1,e2", "1e1,0", "", ".", "-", "+", "e1",
    ".e1", "1e", "1e+", "1e+-1", "--1", "1.2.3", " 1", "1 ", "1_0", "0x1", "1d", "NaN", "Infinity",
    "٣", "-٣.٣e-٣", r"1\u066b5", r"\ud835\udfcf", r"\u0031", r"0\u0065-2147483647",
    r"1\u0065\u002d2", r"1\n", "00000000000000000000000000000000000000000000000001.5",
]  # fmt: skip
DATES = [
    "2024-01-01", "2024-02-29", "2023-02-29", "1900-02-29", "2024-02-30", "2024-04-31", "2024-1-1",
    "2024-1", "2024", "0001-01-01", "0000-12-31", "1582-10-04", "1582-10-10", "1582-10-15",
    "1500-02-29", "9999-12-31", "2024-00-01", "2024-13-01", "2024-01-00", "2024-01-32",
    "2024-01-01T", "2024-01-01 ", " 2024-01-01", r"\t2024-01-01\n", r"\u00002024-01-01\u007f",
    "2024-01-01 x", "2024-01-01T12:00:00Z", "2024-01-01Té", "2024-01-01x", "2024-01-01é", "2024T",
    "2024-01T", "2024 ", "2024-", "2024-01-", "2024--01", "2024-001-01", "2024-01-001", "024-01-01",
    "0002024-01-01", "+2024-01-01", "2024/01/01", "20240101", "2024-01-01GMT", "2024-0GMT1-01",
    "GMT", "٢٠٢٤-01-01", "123", "-123", "+123", "٣", r"\ud835\udfcf", "5 ", "-00141427",
    "-00141428", "-00577736", "2147483648", "+-5", "1e2", "-", "", " ", "epoch", "now", "today",
]  # fmt: skip
BASE64 = [
    "YWJj", "YQ==", "YWI=", "YR==", "++//", r"\/\/\/\/", r"\u0059Q==", r"YQ=\u003d", " ", r"\n",
    r"\u0000", "", "YWJjYWJj",
]  # fmt: skip
NO_BASE64 = [
    "YQ", "YWI", "Y", "=", "====", "YQ= =", "-_-_", "é", r"\u00e4", "YW Jj", r"YW\nJj", "\t", "\n",
    "\0", "YQQ==", r"\ud800", "YQ=Q",
]  # fmt: skip
NO_MAPS = [
    "[]", "[null]", '[{"key":"a","value":null}]', "{null}", "{null:null}", '{"a"}', '{"a":}', "{,}",
    '{"a":null,}', '{"a":null:null}', '{"a":null,"b"}', "{{}:null}", "{[]:null}", "{1:null}",
    '{"a":null]', '{"a":{]', '{"a" null}', '{"a":null "b":null}', "{a:null}", "{:null}", '""', "7",
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
                pa.struct([("a", pa.int64())]), pa.struct([]), pa.date32(), pa.binary(),
                pa.decimal128(4, 2),
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
        if types.is_map(column_type):
            return self._map(column_type.item_type, depth)
        return self._scalar(column_type)

    def _map(self, item_type: pa.DataType, depth: int) -> str:
        if self._rarely(0.03):
            return self._any(NO_MAPS)
        names = self._random.choices(["a", "b", "", "key", "value", *TEXTS], k=3)
        pairs = [
            f"{self._name(name)}{self._blank()}:{self._value(item_type, depth + 1)}"
            for name in names[: self._random.choice([0, 1, 2, 3])]
        ]
        return "{" + self._blank() + ",".join(pairs) + self._blank() + "}"

    def _scalar(self, column_type: pa.DataType) -> str:
        types = pa.types
        if types.is_boolean(column_type):
            return self._any(WORDS if self._rarely(0.05) else WORDS[:3])
        if types.is_decimal(column_type):
            return self._decimal(column_type)
        if types.is_integer(column_type) or types.is_floating(column_type):
            return self._number(whole=types.is_integer(column_type))
        if types.is_date(column_type):
            return self._quoted(DATES if self._rarely(0.5) else DATES[:2])
        if types.is_binary(column_type):
            texts = NO_BASE64 if self._rarely(0.05) else BASE64
            return self._quoted(texts, self._random.choice([1, 1, 2, 3]))
        return self._text()

    def _number(self, *, whole: bool) -> str:
        if self._rarely(0.05):
            return self._any(NO_NUMBERS)
        if self._rarely(0.4):
            return self._any(NUMBERS)
        if whole:
            return str(self._random.randrange(-40, 40))
        return repr(self._random.choice([1, 1e-3, 1e6]) * self._random.randrange(-9999, 9999))

    def _decimal(self, column_type: pa.Decimal128Type) -> str:
        if self._rarely(0.05):
            return self._quoted(JAVA_DECIMALS)
        if self._rarely(0.1):
            number = self._any(DECIMALS if self._rarely(0.8) else NUMBERS)
        else:
            whole_digits = column_type.precision - column_type.scale
            whole = self._random.randrange(10 ** self._random.randrange(whole_digits + 1))
            places = self._random.randrange(column_type.scale + 4)
            fraction = "".join(self._random.choices("0123459", k=places))
            number = f"{self._any(['', '-'])}{whole}{f'.{fraction}' if fraction else ''}"
        return f'"{number}"' if self._rarely(0.1) else number

    def _quoted(self, texts: list[str], count: int = 1) -> str:
        return '"' + "".join(self._random.choices(texts, k=count)) + '"'

    def _text(self) -> str:
        texts = NO_TEXTS if self._rarely(0.02) else TEXTS
        return self._quoted(texts, self._random.choice([1, 1, 2]))

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
