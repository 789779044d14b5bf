"""Values that stores, JSON libraries and languages disagree about, and what becomes of each of them here."""

from __future__ import annotations

import collections
import contextlib
import enum
import io
import math
import types
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from casehub.plain import MAX_ITEMS, MAX_SIZE


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    YES = "yes"


class Opaque:
    def __repr__(self) -> str:
        return "Opaque()"


def nested(levels: int, leaf: Any = None) -> Any:
    value = [] if leaf is None else leaf
    for _ in range(levels):
        value = [value]
    return value


def _cycles() -> tuple[list[Any], dict[str, Any], list[Any]]:
    items: list[Any] = [1]
    items.append(items)
    record: dict[str, Any] = {}
    record["me"] = record
    around: list[Any] = [{}]
    around[0]["back"] = around
    return items, record, around


SAME: Final = object()

ACCEPTED: Final[list[tuple[Any, Any]]] = [
    *((value, SAME) for value in (
        None, True, False, 0, -1, 10**63, 1 - 10**64, 2**53 + 1, 0.0, -0.0, 1e308, 5e-324, 0.1, 1.0,
        "", "a", "ü", "\U0001f600", "e\u0301", "\u2028\u2029", "\x01\x1f\x7f", "\uffff\ufeff", "\\u0000", "\\ud800", "NaN", "null", '{"a": 1}',
        "'; DROP TABLE events; --", "{{7*7}}${7*7}", "<script>", "x" * (MAX_SIZE - 2), ["\x01" * 170_000], "\u00fc" * 500_000,
        [], {}, [[]], [{}], {"": 1}, {"a.b": 1}, {"b": 1, "a": 2}, {"ü": [1, 1.0, True, "1"]}, nested(63), [0] * MAX_ITEMS,
        {"$serializer": "json", "value": 1}, {"$serializer": "os.system", "value": "id"}, {"$serializer": 5}, [{"$serializer": "x"}],
        {"__class__": "os.system"}, {"@type": "java.lang.Runtime"}, {"py/object": "os.system"}, {"$ref": "#/x"}, {"lc": 1, "type": "constructor"},
        "gASVHQAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAJpZJSFlFKULg==",
    )),
    ((1, 2), [1, 2]), (collections.Counter("aab"), {"a": 2, "b": 1}), (collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    (collections.defaultdict(list, a=[1]), {"a": [1]}), (types.MappingProxyType({"a": 1}), {"a": 1}), (Text("a"), "a"), (Number(3), 3),
    ({Text("k"): Text("v")}, {"k": "v"}), ([(1,), [Text("x")]], [[1], ["x"]]), (collections.namedtuple("Pair", "a b")(1, 2), [1, 2]),
]  # fmt: skip
"""A value, and what it is read back as, at once and after a restart."""

REFUSED: Final[list[tuple[Any, str]]] = [
    (math.nan, "V: nan is not a JSON number"),
    (math.inf, "V: inf is not a JSON number"),
    ([-math.inf], "V[0]: -inf is not a JSON number"),
    ({"a": [1, {"b": math.nan}]}, "V.a[1].b: nan is not a JSON number"),
    ("\ud800", "V: text with a lone surrogate at position 0"),
    (["a", "b\udfff"], "V[1]: text with a lone surrogate at position 1"),
    ({"\udc00": 1}, "V: text with a lone surrogate at position 0"),
    ("a\0b", "V: text with a NUL character"),
    ({"a": {"b": "\0"}}, "V.a.b: text with a NUL character"),
    ({"a\0": 1}, "V: text with a NUL character"),
    (10**64, "V: an integer of 64 or so digits"),
    (-(10**64), "V: an integer of 64 or so digits"),
    ([10**5000], "V[0]: an integer of 5000 or so digits"),
    (nested(65), "V" + "[0]" * 65 + ": nested deeper than 64 levels"),
    (nested(64, {"a": 1}), "V" + "[0]" * 64 + ".a: nested deeper than 64 levels"),
    (nested(100_000), "V" + "[0]" * 65 + ": nested deeper than 64 levels"),
    *zip(_cycles(), ("V" + "[1]" * 64 + "[0]: nested", "V" + ".me" * 65 + ": nested", "V" + ("[0].back" * 32)[:90] + "..." + ("[0].back" * 32)[-87:] + "[0]: nested"), strict=True),
    ("x" * (MAX_SIZE + 1), "V: larger than 1,048,576 bytes of JSON"),
    ("ü" * 600_000, "V: larger than 1,048,576 bytes of JSON"),
    (["\x01" * 180_000], "V: larger than 1,048,576 bytes of JSON"),
    ([10**63] * 20_000, "V: larger than 1,048,576 bytes of JSON"),
    ("x" * (MAX_SIZE - 1), "V: larger than 1,048,576 bytes of JSON"),
    (["x" * 1_000_000, "x" * 1_000_000], "V[1]: larger than 1,048,576 bytes of JSON"),
    ({"x" * (MAX_SIZE + 1): 1}, "V: larger than 1,048,576 bytes of JSON"),
    ([0] * (MAX_ITEMS + 1), "V: larger than 65,536 items"),
    (dict.fromkeys(map(str, range(MAX_ITEMS + 1)), 0), "V: larger than 65,536 items"),
    ([[0] * 40_000, [0] * 40_000], "V[1]: larger than 65,536 items"),
    ({1: 2}, "V: the key 1 is int, and JSON keys are strings"),
    ({"a": {None: 2}}, "V.a: the key None is NoneType"),
    ({(1, 2): 2}, "V: the key (1, 2) is tuple"),
    ({b"a": 2}, "V: the key b'a' is bytes"),
    ({True: 2}, "V: the key True is bool"),
    ({1.5: 2}, "V: the key 1.5 is float"),
    ({Word.YES: 2}, "V: the key <Word.YES: 'yes'> is Word"),
    (b"", "V: bytes is no JSON value"),
    (bytearray(b"a"), "V: bytearray is no JSON value"),
    ([memoryview(b"a")], "V[0]: memoryview is"),
    ({1, 2}, "V: set is no JSON value"),
    (frozenset(), "V: frozenset is no JSON value"),
    (collections.deque([1]), "V: deque is no JSON value"),
    (range(3), "V: range is no JSON value"),
    (1 + 2j, "V: complex is no JSON value"),
    (Decimal("1.10"), "V: Decimal is no JSON value"),
    (Decimal("NaN"), "V: Decimal is no JSON value"),
    (datetime(2030, 1, 1, tzinfo=UTC), "V: datetime is no JSON value"),
    (date(2030, 1, 1), "V: date is no JSON value"),
    (UUID(int=1), "V: UUID is no JSON value"),
    (Colour.RED, "V: <Colour.RED: 'red'> is an enumeration member"),
    ([Level.LOW], "V[0]: <Level.LOW: 1> is an enumeration member"),
    ({"a": Word.YES}, "V.a: <Word.YES: 'yes'> is an enumeration member"),
    (Opaque(), "V: Opaque is no JSON value"),
    (Opaque, "V: type is no JSON value"),
    (print, "V: builtin_function_or_method is no JSON value"),
    (math, "V: module is no JSON value"),
    (..., "V: ellipsis is no JSON value"),
    (ValueError("x"), "V: ValueError is no JSON value"),
    (Path("a").parts.__iter__(), "V: tuple_iterator is open in this process alone"),
    ((each for each in [1]), "V: generator is open in this process alone"),
    (io.StringIO("x"), "V: StringIO is open in this process alone"),
    ([contextlib.nullcontext()], "V[0]: nullcontext is open in this process alone"),
]  # fmt: skip
"""A value, and how what is said of it begins; `V` stands for the fact."""

TEXTS: Final[list[tuple[str, Any]]] = [
    ("null", None), ("true", True), ("-0.0", -0.0), ("1E2", 100.0), ("9" * 64, int("9" * 64)), ('"\\u00fc\\ud83d\\ude00"', "ü\U0001f600"),
    ('{"b": [1, 1.0], "a": {}}', {"b": [1, 1.0], "a": {}}), ('{"$serializer": "x"}', {"$serializer": "x"}), ('"\\\\u0000"', "\\u0000"),
]  # fmt: skip
"""JSON as text, and what it says."""

BAD_TEXTS: Final[list[tuple[str, str]]] = [
    ('{"a": [NaN]}', "V.a[0]: nan is not a JSON number"),
    ("[Infinity]", "V[0]: inf is not a JSON number"),
    ("[-Infinity]", "V[0]: -inf is not a JSON number"),
    ('{"a": 1e400}', "V.a: inf is not a JSON number"),
    ('"\\ud800"', "V: text with a lone surrogate at position 0"),
    ('{"\\udc00": 1}', "V: text with a lone surrogate"),
    ('["\\u0000"]', "V[0]: text with a NUL character"),
    ("1" + "0" * 64, "V: an integer of 64 or so digits"),
    ('{"a": -1' + "0" * 9_999 + "}", "V.a: an integer of 5000 or so digits"),
    ("[" * 66 + "]" * 66, "V" + "[0]" * 65 + ": nested deeper than 64 levels"),
    ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
    ('{"a": 1, "a": 2}', "the key 'a' stands twice"),
    ('{"r": [0, {"a": {"b": 1, "c": 2, "b": 3}}]}', ".r[1].a: the key 'b' stands twice"),
    ("[" + "0," * MAX_ITEMS + "0]", "V: larger than 65,536 items"),
    ('"' + "x" * (MAX_SIZE + 1) + '"', "V: larger than 1,048,576 bytes of JSON"),
]  # fmt: skip
"""JSON as text, and what is said of it; of a text that is none, within what is said."""
