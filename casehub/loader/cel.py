"""Expressions in CEL (Common Expression Language, https://cel.dev): checked and typed when a definition is loaded.

Facts are variables of their declared types. Beside CEL's own there are `present(fact)` and `absent(fact)`. A whole number
stands for a number where the other side is one, which CEL alone refuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from cel_expr_python import cel
from cel_expr_python.ext import ext_math, ext_strings

from casehub.loader.expressions import ExpressionError
from casehub.loader.mistakes import instead
from casehub.values import Plain

NO_FACT: Final = "which is no fact"
"""What is said of an unknown name, at the end of the reason."""
MAX_LENGTH: Final = 4_000
"""Characters of an expression."""

_TOKEN = re.compile(
    r"""(?P<text>[rRbB]{0,2}(?:\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
    |(?P<note>//[^\n]*)|(?P<number>0x[0-9a-fA-F]+u?|[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?u?)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<space>\s+)|(?P<sign>&&|\|\||==|!=|<=|>=|.)""",
    re.VERBOSE | re.DOTALL,
)
_PRESENCE = re.compile(r"\b(?P<word>present|absent)\((?P<before>\s*)(?P<name>[A-Za-z_]\w*)(?P<after>\s*)\)")
_COMPREHENSION = re.compile(r"\.\s*(?:all|exists|exists_one|map|filter)\(\s*([A-Za-z_]\w*)\s*,")
_FOUND = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)$", re.MULTILINE)
_OVERLOAD = re.compile(r"found no matching overload for '(.+?)' applied to '(.*)'")
_TYPES = {"double": "number", "int": "integer", "string": "text", "bool": "boolean", "dyn": "any value"}
FUNCTIONS: Final = (
    "present", "absent", "size", "has", "all", "exists", "exists_one", "map", "filter", "contains", "startsWith", "endsWith",
    "matches", "int", "double", "string", "bool", "timestamp", "duration", "lowerAscii", "upperAscii", "trim", "split",
    "join", "replace", "math.greatest", "math.least",
)  # fmt: skip
_LANGUAGE: Final = frozenset(
    [
        "true",
        "false",
        "null",
        "in",
        "int",
        "uint",
        "double",
        "bool",
        "string",
        "bytes",
        "list",
        "map",
        "type",
        "timestamp",
        "duration",
        "null_type",
        "dyn",
        "math",
    ]
)


class CelError(Exception):
    """What is wrong with an expression: line and column in its text, the reason, the remedy."""

    def __init__(self, found: Sequence[tuple[int, int, str, str]]) -> None:
        self.found = tuple(found)
        super().__init__("; ".join(reason for _, _, reason, _ in found))


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int


@dataclass(slots=True)
class CelProgram:
    """A compiled expression. `returns`: the type of what it comes to."""

    source: str
    reads: tuple[str, ...]
    optional: frozenset[str]
    returns: cel.Type
    kinds: Mapping[str, cel.Type]
    tested: frozenset[tuple[str, str]]
    code: cel.Expression

    @property
    def apart(self) -> bool:
        return False

    def compute(self, facts: Mapping[str, Plain]) -> Plain:
        data: dict[str, Any] = {name: _given(value, self.kinds[name]) for name, value in facts.items()}
        for word, name in self.tested:
            data[f"{word}_{name}_"] = (name in facts) is (word == "present")
        try:
            found = self.code.eval(data=data)
        except (RuntimeError, ValueError, TypeError, OverflowError) as error:
            raise ExpressionError(f"{self.source!r} cannot be evaluated: {_first_line(error)}") from None
        # An error comes back as a value, and its text would be true.
        if found.type() == cel.Type.ERROR:
            raise ExpressionError(f"{self.source!r} cannot be evaluated: {found.plain_value()}")
        return _plain(found.plain_value(), self.source)


def named_in(
    source: str, facts: Mapping[str, Any]
) -> tuple[tuple[str, ...], frozenset[str], frozenset[tuple[str, str]]]:
    """The facts that an expression names, those of them that are optional in it, and its tests of presence."""
    tested = frozenset((match["word"], match["name"]) for match in _PRESENCE.finditer(_blanked(source)))
    optional = frozenset(name for _, name in tested if name in facts)
    elements = set(_COMPREHENSION.findall(_blanked(source)))
    reads = dict.fromkeys(
        token.text
        for before, token, after in _around(_tokens(source))
        if token.kind == "name"
        and token.text in facts
        and token.text not in elements
        and before != "."
        and not (after == "(" and before != "(")
    )
    return tuple(reads), optional, tested


def compiled(source: str, facts: Mapping[str, cel.Type], fields: Mapping[str, frozenset[str]]) -> CelProgram:
    """The program of an expression. `facts`: what may be named, with types; `fields`: of facts that have no others.

    Raises `CelError` with everything that is wrong with it.
    """
    if len(source) > MAX_LENGTH:
        raise CelError([(1, 1, f"has {len(source):,} characters, and {MAX_LENGTH:,} are the most", "split it")])
    if source.lstrip().startswith("."):
        first = _place(source, len(source) - len(source.lstrip()))
        raise CelError([(*first, "begins with a dot, as jq does", "name the fact without a dot, or write {jq: ...}")])
    reads, optional, tested = named_in(source, facts)
    unknown = [
        (
            *_place(source, match.start("name")),
            f"names {match['name']!r}, {NO_FACT}",
            instead(match["name"], facts),
        )
        for match in _PRESENCE.finditer(_blanked(source))
        if match["name"] not in facts
    ]
    wrong = unknown + list(_strange_fields(source, fields))
    wrong += _shadowing(source, facts)
    variables = {**{name: facts[name] for name in reads}, **{f"{word}_{name}_": cel.Type.BOOL for word, name in tested}}
    environment = cel.NewEnv(variables=variables, extensions=[ext_strings.ExtStrings(), ext_math.ExtMath()])
    text, added = _rewritten(source), list[int]()
    code: cel.Expression | None = None
    while code is None:
        try:
            code = environment.compile(text)
        except RuntimeError as error:
            place = _widening(str(error), text)
            if place is None:
                wrong += _told(str(error), source, text, added, facts)
                raise CelError(sorted(set(wrong))) from None
            text = f"{text[:place]}.0{text[place:]}"
            added = [each + 2 if each > place else each for each in added] + [place]
    if wrong:
        raise CelError(wrong)
    return CelProgram(source, reads, optional, code.return_type(), {name: facts[name] for name in reads}, tested, code)


def in_words(kind: cel.Type | str) -> str:
    """A type of CEL as definitions name it."""
    name = kind if isinstance(kind, str) else kind.name()
    name = name.lower()
    return _TYPES.get(name, name.replace("map<string, dyn>", "object"))


def _tokens(source: str) -> list[_Token]:
    return [
        _Token(str(match.lastgroup), match[0], match.start())
        for match in _TOKEN.finditer(source)
        if match.lastgroup not in ("note", "space")
    ]


def _around(tokens: Sequence[_Token]) -> Iterator[tuple[str, _Token, str]]:
    """Each token with the text of those before and behind it."""
    for place, token in enumerate(tokens):
        before = tokens[place - 1].text if place else ""
        yield before, token, tokens[place + 1].text if place + 1 < len(tokens) else ""


def _blanked(source: str) -> str:
    """The source with texts and notes blanked, place for place."""
    return _TOKEN.sub(lambda m: "~" * len(m[0]) if m.lastgroup in ("text", "note") else m[0], source)


def _rewritten(source: str) -> str:
    """The source with its tests of presence as variables, of the same length so that columns stay what they are."""
    text = source
    for match in _PRESENCE.finditer(_blanked(source)):
        variable = f"{match['word']}_{match['name']}_"
        text = text[: match.start()] + variable.ljust(match.end() - match.start()) + text[match.end() :]
    return text


def _widening(message: str, text: str) -> int | None:
    """Where a whole number has to become a number for the first operator that has no overload, if that mends it."""
    for line, column, problem in _FOUND.findall(message):
        overload = _OVERLOAD.search(problem)
        if overload is None or overload[2] not in ("(double, int)", "(int, double)"):
            continue
        at = _offset(text, int(line), int(column))
        tokens = _tokens(text)
        place = next((number for number, token in enumerate(tokens) if token.start == at), None)
        if place is None:
            continue
        step = 1 if overload[2] == "(double, int)" else -1
        place += step
        while 0 <= place < len(tokens) and tokens[place].text in "(-)":
            place += step
        if 0 <= place < len(tokens) and tokens[place].kind == "number" and tokens[place].text.isdigit():
            return tokens[place].start + len(tokens[place].text)
    return None


def _no_function(name: str) -> tuple[str, str]:
    if name in ("present", "absent"):
        return (
            f"asks {name}(...) for something that is no fact",
            f"write the name of a fact without quotes: {name}(name)",
        )
    return f"calls {name!r}, which is no function", instead(name, FUNCTIONS)


def _told(
    message: str, source: str, text: str, added: Sequence[int], facts: Mapping[str, Any]
) -> Iterator[tuple[int, int, str, str]]:
    """The compiler's complaints, in the words of definitions and at their places in the source."""
    found = _FOUND.findall(message)
    if not found:
        yield 1, 1, f"cannot be compiled: {_first_line(message)}", "write another expression"
    for line, column, problem in found:
        at = _offset(text, int(line), int(column))
        place = _place(source, at - 2 * sum(each < at for each in added))
        if match := re.search(r"undeclared reference to '([^']+)'", problem):
            name = match[1].split(".")[0]
            for before, token, after in _around(_tokens(source)):
                if token.text == match[1] and after == "(":
                    yield (
                        *_place(source, token.start),
                        *_no_function(name),
                    )
                    break
                if token.text == name and before != ".":
                    yield (
                        *_place(source, token.start),
                        f"names {name!r}, {NO_FACT}",
                        _instead(name, source, facts),
                    )
                    break
        elif match := _OVERLOAD.search(problem):
            sides = " and ".join(in_words(part.strip()) for part in re.split(r",(?![^<(]*[>)])", match[2].strip("()")))
            sign = match[1].strip("_@").replace("_", " ").strip()
            yield (
                *place,
                f"has {sign!r} between {sides}",
                "make both sides alike; double(...), int(...) and string(...) convert",
            )
        elif "argument must be a field selection" in problem:
            yield (
                *place,
                "asks has(...) for something that is no field",
                "write present(fact) for a fact, has(fact.field) for a field",
            )
        elif "Syntax error" in problem or "reserved identifier" in problem:
            yield *place, *_syntax(source, problem)
            return  # what else is said of it follows from this
        else:
            yield *place, f"is refused by CEL: {problem}", "write it another way"


def _instead(name: str, source: str, facts: Mapping[str, Any]) -> str:
    found = instead(name, facts)
    return f"{found}; for the text write '\"{name}\"'" if source.strip() == name else found


def _syntax(source: str, problem: str) -> tuple[str, str]:
    tokens = _tokens(source)
    words = {token.text for token in tokens if token.kind == "name"}
    signs = {token.text for token in tokens if token.kind == "sign"}
    if meant := [
        f"{other} for {word!r}" for word, other in (("and", "&&"), ("or", "||"), ("not", "!")) if word in words
    ]:
        return "is not CEL", f"write {', '.join(meant)}"
    if "=" in signs:
        return "has a single '='", "write == to compare"
    if "<EOF>" in problem and "mismatched" in problem:
        return "ends too early", "complete it"
    return "is not CEL: " + problem.removeprefix("Syntax error: ").split(" expecting ")[0], "see https://cel.dev"


def _strange_fields(source: str, fields: Mapping[str, frozenset[str]]) -> Iterator[tuple[int, int, str, str]]:
    """Fields that a fact's type does not have."""
    tokens = _tokens(source)
    for place, token in enumerate(tokens[:-2]):
        known = fields.get(token.text)
        last = tokens[place + 2]
        called = place + 3 < len(tokens) and tokens[place + 3].text == "("
        if known is None or tokens[place + 1].text != "." or (place and tokens[place - 1].text == ".") or called:
            continue
        if last.kind == "name" and last.text not in known:
            yield (
                *_place(source, last.start), f"names {last.text!r}, which {token.text!r} does not have", instead(last.text, known),
            )  # fmt: skip


def _shadowing(source: str, facts: Mapping[str, Any]) -> Iterator[tuple[int, int, str, str]]:
    """Names of comprehensions, such as `d` in `all(d, ...)`, that are those of facts."""
    for match in _COMPREHENSION.finditer(_blanked(source)):
        if match[1] in facts:
            yield (
                *_place(source, match.start(1)),
                f"calls an element {match[1]!r}, as a fact is called",
                "call it otherwise",
            )


def _place(source: str, at: int) -> tuple[int, int]:
    return source.count("\n", 0, at) + 1, at - (source.rfind("\n", 0, at) + 1) + 1


def _offset(text: str, line: int, column: int) -> int:
    return sum(len(each) + 1 for each in text.split("\n")[: line - 1]) + column - 1


def _first_line(error: object) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _given(value: Plain, kind: cel.Type) -> Any:
    """A plain value as the type of its variable takes it."""
    return datetime.fromisoformat(value) if kind == cel.Type.TIMESTAMP and isinstance(value, str) else value


def _plain(value: Any, source: str) -> Plain:
    """What an expression came to, as a fact has it."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list):
        return [_plain(item, source) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item, source) for key, item in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ExpressionError(f"{source!r} comes to {value!r}, which is no JSON value; convert it, such as by string(...)")
