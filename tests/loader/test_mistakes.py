"""Mistakes in a YAML definition: each is found, at its place, and told so that a person can act on it."""

from __future__ import annotations

import pytest

from casehub import DefinitionError
from casehub.loader import loads

ALLOWED = ("tests.loader.code",)

# name: the text, with the mistake behind a `^` (which is taken out); what is said; what to do. Several `^`: several mistakes.
GOOD = """case: loan
inputs: {amount: number, applicant: {type: object, properties: {name: {type: string}}}}
workers:
  rate:
    set: {rating: amount / 1000}
"""

MISTAKES: dict[str, tuple[str, str, str]] = {
    # ---- the text itself
    "an empty file": ("^", "is empty", "begin with case:"),
    "a file that is a list": ("^- case: x", "is a list, and a definition was expected", "begin with case:"),
    "a tab": ("case: x\nworkers:\n^\trate: {}", "has a tab", "replace the tab by spaces"),
    "a tab behind spaces": ("case: x\nworkers:\n  ^\trate: {}", "has a tab", "replace the tab by spaces"),
    "a key that stands twice": ("case: x\nstrict: true\n^case: y", "'case': stands twice; the first is in line 1", "remove one"),
    "a custom tag": ("case: ^!python/name:os.system x", "a tag: !python/name:os.system is given", "remove the tag"),
    "a tag of YAML's own": ("case: ^!!str 5", "a tag: !!str is given", "in quotes"),
    "an alias of nothing": ("case: ^*name", "*name stands for nothing", "write &name"),
    "a merge key": ("case: x\nlimits: {^<<: {events: 3}}", "does not merge by", "write the keys out"),
    "a key that is a list": ("case: x\n? ^[a, b]\n: c", "is a list, and keys are names", "write a name"),
    "a second document": ("case: x\n^---\ncase: y", "has a second document", "one definition in a file"),
    "YAML of another version": ("%YAML 1.1\n^---\ncase: x", "another version", "remove the %YAML line"),
    "a colon in text": ("case: x\ntitle: a^: b", "has a ':' where no key can be", "in quotes"),
    "a bracket that stays open": ("case: x\nlimits: {events: 3^", "ends inside of a quotation or a bracket that line 2 opens", "close it"),
    "a quotation that stays open": ("case: x\ntitle: 'a^", "ends inside of a quotation", "close it"),
    "a bracket within braces": ("case: x\ninputs: {a: list^[string]}", "has a '[' within braces", "put the text in quotes"),
    "text behind quotes": ('case: x\ndone_when: "a" ^== b', "text behind a value in quotes", "in single quotes"),
    "a sign where a value begins": ("case: x\ntitle: ^@home", "has '@' where a value begins", "in quotes"),
    "indentation that does not fit": ("case: x\nlimits:\n    events: 3\n  ^firings: 3", "is not indented like what is before it", "indent the keys"),
    "a character that YAML forbids": ("case: a^\x01", "has the character '\\x01'", "remove it"),
    "nesting without end": ("case: x\nlimits: " + "[" * 31 + "^[" + "]" * 32, "nested deeper than 32 levels", "flatter"),
    # ---- keys and kinds of values
    "no name": ("^goal: rating", "lacks 'case'", "add case: text"),
    "a misspelt key": ("case: x\n^wrokers: {}", "'wrokers' is no key of it", "did you mean 'workers'?"),
    "a misspelt key of a worker": ("case: x\nworkers:\n  rate:\n    ^sett: {rating: '1'}", "workers.rate: 'sett' is no key", "did you mean 'set'?"),
    "a misspelt key of a retry": ("case: x\nworkers:\n  rate: {set: {rating: '1'}, refire: once, retry: {^atempts: 3}}", "'atempts' is no key", "did you mean 'attempts'?"),
    "a number for a name": ("case: ^5", "case: is the number 5, and text was expected", 'put it in quotes: "5"'),
    "nothing for a name": ("case:^", "case: is nothing, and text was expected", "give it"),
    "text for a number": (GOOD + "    limit: ^many", "is the text 'many', and a whole number was expected", "write it"),
    "a number in quotes": (GOOD + "    limit: ^'3'", "is the text '3', and a whole number was expected", "leave the quotes out"),
    "a fraction for a whole number": (GOOD + "    limit: ^1.5", "is the number 1.5, and a whole number", "write it"),
    "no for false": (GOOD + "at_quiescence: ^no", "is the text 'no', and true or false was expected", "yes, no, on and off are text"),
    "a list for a mapping": ("case: x\nworkers: ^[a]", "workers: is a list, and a mapping of names to workers", "write it"),
    "a number for a duration": (GOOD + "    timeout: ^30", "is the number 30, and a duration such as", "with units"),
    "a duration without a unit": (GOOD + "    timeout: ^'30'", "'30' is no duration", "such as 90s"),
    "a choice that is none": (GOOD + "    refire: ^on_chang", "'on_chang' is no choice", "did you mean 'on_change'?"),
    "a merge that is none": (GOOD + "    merge: ^last_wins", "'last_wins' is no choice", "did you mean 'last_writer_wins'?"),
    "a condition that is brought and is none": (GOOD + "    brings: ^seen\nconditions: {sen: {present: rating}}", "brings 'seen', which is no condition", "did you mean 'sen'?"),
    "a condition that is needed and is none": (GOOD + "    needs: ^seen\nconditions: {sen: {present: rating}}", "there is no condition 'seen'", "did you mean 'sen'?"),
    "a condition of a fact that nobody writes": (GOOD + "conditions: {^signed: {}}", "reads 'signed', which nobody writes", ""),
    "a key that no condition has": (GOOD + "conditions: {seen: {^wen: amount > 3}}", "'wen' is no key of it", "did you mean 'when'?"),
    "what undoes no worker": (GOOD + "  undo:\n    set: {off: amount}\n    compensates: ^rat", "compensates 'rat', which is no binding", "did you mean 'rate'?"),
    "what undoes something and has a guard": (GOOD + "  undo:\n    set: {off: amount}\n    when: amount > 1\n    compensates: ^rate", "says when=, which is never asked", "leave that out"),
    "an end before which nothing is undone": (GOOD + "compensation: {on: ^[COMPLETED]}", "a case compensates before it is FAULTED or CANCELLED", "known: CANCELLED, FAULTED"),
    "a limit of zero": (GOOD + "    limit: ^0", "is 0, and 1 is the least", "leave the binding out"),
    "no attempts": (GOOD + "    retry: {attempts: ^0}", "the first attempt counts", ""),
    "a factor that shrinks": (GOOD + "    retry: {factor: ^0.5}", "at least 1", ""),
    "a budget of nothing": (GOOD + "budget: ^{per: day}", "bounds nothing", "give calls="),
    "an exception that is none": (GOOD + "    retry: {on: [^TimeoutErr]}", "'TimeoutErr' is no exception", "such as TimeoutError"),
    "an event that is none": (GOOD + "    on: {events: [^MILESTONE_REACHT]}", "'MILESTONE_REACHT' is no event", "did you mean 'MILESTONE_REACHED'?"),
    # ---- types
    "a type that is none": ("case: x\ninputs: {amount: ^nmber}", "'nmber' is no type", "did you mean 'number'?"),
    "a list of a type that is none": ("case: x\ninputs: {amount: ^'list[strng]'}", "'strng' is no type", "did you mean 'string'?"),
    "a key that no type has": ("case: x\ninputs: {amount: {type: number, ^minimun: 3}}", "'minimun' is no key of a type", "did you mean 'minimum'?"),
    "a schema that is none": ("case: x\ninputs: {amount: {type: number, minimum: ^low}}", "is no JSON Schema: 'low' is not of type 'number'", "json-schema.org"),
    "a default of another type": ("case: x\ninputs: {amount: {type: number, default: ^much}}", "does not fit its own type", "make the two agree"),
    "a fact with a hyphen": ("case: x\ninputs: {^net-amount: number}", "'net-amount' is no name of a fact", "underscores"),
    "a fact that is a word of Python": ("case: x\nsignals: [^class]", "'class' is no name of a fact", "no word of Python"),
    "an optional signal": ("case: x\nsignals: {yes_: ^'string?'}", "and only inputs are", "leave that out"),
    # ---- expressions
    "an unknown fact": (GOOD + "done_when: ^amuont > 3", "names 'amuont', which is no fact", "did you mean 'amount'?"),
    "an unknown fact further on": (GOOD + "done_when: amount > 3 && ^ratng > 2", "names 'ratng', which is no fact", "did you mean 'rating'?"),
    "an unknown fact in a block": (GOOD + "done_when: |\n  amount > 3\n    && ^ratng > 2", "names 'ratng'", "did you mean 'rating'?"),
    "an unknown fact in quotes": (GOOD + "done_when: 'amount > 3 && ^ratng > 2'", "names 'ratng'", "did you mean 'rating'?"),
    "an unknown fact in a test of presence": (GOOD + "done_when: present(^ratng)", "names 'ratng', which is no fact", "did you mean 'rating'?"),
    "a field that is not there": (GOOD + "done_when: applicant.^nam == 'Ada'", "names 'nam', which 'applicant' does not have", "did you mean 'name'?"),
    "types that do not go together": (GOOD + "done_when: amount ^> 'much'", "has '>' between number and text", "double(...)"),
    "a condition that is no truth": (GOOD + "done_when: ^amount + 1.0", "comes to number, and a condition is true or false", "compare it"),
    "Python's words": (GOOD + "done_when: amount > 3 ^and rating > 2", "is not CEL", "write && for 'and'"),
    "a single equals sign": (GOOD + "done_when: amount ^= 3", "has a single '='", "write == to compare"),
    "an expression that ends too early": (GOOD + "done_when: amount >^", "ends too early", "complete it"),
    "a jq expression": (GOOD + "done_when: ^.amount != null", "begins with a dot, as jq does", "name the fact without a dot"),
    "a function that is none": (GOOD + "done_when: ^lenght(applicant.name) > 3", "calls 'lenght', which is no function", "one of: present"),
    "a fact in quotes": (GOOD + "done_when: ^present('rating')", "asks present(...) for something that is no fact", "without quotes"),
    "text that is meant as text": (GOOD.replace("amount / 1000", "^high"), "names 'high', which is no fact", "for the text write '\"high\"'"),
    "a boolean for a condition": (GOOD + "done_when: ^true", "is the boolean true, and an expression was expected", "amount > 1000"),
    "a list for a condition": (GOOD + "done_when: ^[amount > 3]", "is a list, and a condition was expected", "write all: or any:"),
    "a part of a condition that is none": (GOOD + "done_when: {^presnt: rating}", "'presnt' is no key of it", "did you mean 'present'?"),
    "an expression that waits for its own worker": (GOOD.replace("}\n", "}\n", 1).replace("amount / 1000", "amount / 1000, high: ^rating > 3"), "waits for 'rating', which nobody but this worker sets", "a worker of its own"),
    "an expression of another type than its fact": (GOOD.replace("amount / 1000", "^amount > 3") + "facts: {rating: string}", "comes to boolean, and 'rating' is text", "make the two agree"),
    "an element called as a fact": (GOOD + "done_when: '[1].all(^amount, amount > 1)'", "calls an element 'amount', as a fact is called", "call it otherwise"),
    # ---- code
    "code that is not allowed": ("case: x\nworkers:\n  go: {run: ^os:system, writes: done}", "'os' is not among the packages that the operator allows", "--allow-code os"),
    "code of another module of the package": ("case: x\nworkers:\n  go: {run: ^tests.staging:Kept, writes: done}", "'tests.staging' is not among", "--allow-code"),
    "code that allowed code imports": ("case: x\nworkers:\n  go: {run: ^tests.loader.code:sleep, writes: done}", "is not defined in allowed code", "that an allowed module defines"),
    "code that is private": ("case: x\nworkers:\n  go: {run: ^tests.loader.code:_hidden, writes: done}", "is private", "something public"),
    "code that is not there": ("case: x\nworkers:\n  go: {run: ^tests.loader.code:asess, writes: done}", "has no 'asess'", "did you mean 'assess'?"),
    "an attribute of something else": ("case: x\nworkers:\n  go: {run: ^tests.loader.code:assess.__globals__, writes: done}", "is no reference", "write module:name"),
    "a reference that is none": ("case: x\nworkers:\n  go: {run: ^assess, writes: done}", "'assess' is no reference", "write module:name"),
    "neither code nor expressions": ("case: x\nworkers:\n  ^go: {writes: done}", "does not say what is done", "give one of run"),
    "both code and expressions": ("case: x\nworkers:\n  ^go: {run: 'tests.loader.code:assess', set: {a: '1'}}", "has run and set", "give one of run"),
    "need without a list": (GOOD + "    ^need: 2", "has 'need', and no list of which it would be", "say which with each"),
    "none of each": ('case: x\ninputs: {words: "list[string]", document: string}\nworkers:\n  go: {run: "tests.loader.code:count", each: ^words, writes: counts, need: 0}', "needs 0 of 'words'", "at least 1"),
    "each without a function": (GOOD + "    ^each: applicant", "has 'each' and nothing that takes an element", "give run:"),
    "a worker without a name": ("case: x\nworkers:\n  ^'': {set: {a: '1'}}", "has an element without a name", "name it"),
    # ---- people
    "a task without a title": (GOOD + "  ok: {ask: ^{form: boolean}, writes: fine}", "lacks 'title'", "add title:"),
    "a task without a form": (GOOD + "  ok: {ask: ^{title: Fine?}, writes: fine}", "lacks 'form'", "add form:"),
    "a task whose answer is no fact": (GOOD + "  ok: ^{ask: {title: Fine?, form: boolean}}", "does not say which fact the answer becomes", "add writes:"),
    "a task with a form that is none": (GOOD + "  ok: {ask: {title: Fine?, form: ^bolean}, writes: fine}", "'bolean' is no type", "did you mean 'boolean'?"),
    "a title that is no text": (GOOD + "  ok: {ask: {title: {cel: ^amount}, form: boolean}, writes: fine}", "comes to number, and text was expected", ""),
    "a title of an unknown fact": (GOOD + "  ok: {ask: {title: {cel: string(^amuont)}, form: boolean}, writes: fine}", "names 'amuont'", "did you mean 'amount'?"),
    "groups that are no names": (GOOD + "  ok: {ask: {title: Fine?, form: boolean, groups: {cel: ^amount}}, writes: fine}", "a list of names was expected", ""),
    "a task that shows an unknown fact": (GOOD + "  ok: {ask: {title: Fine?, form: boolean, shows: [^amuont]}, writes: fine}", "reads 'amuont'", "did you mean 'amount'?"),
    "a deadline that is no time": (GOOD + "  ok: {ask: {title: Fine?, form: boolean, deadline: ^tomorrow}, writes: fine}", "a time with a time zone was expected", "2030-01-01T09:00:00Z"),
    "a reminder without a time zone": (GOOD + "  ok: {ask: {title: Fine?, form: boolean, due: ^2030-01-01T09:00:00}, writes: fine}", "a time with a time zone was expected", "2030-01-01T09:00:00Z"),
    "a reminder that is neither a span nor a time": (GOOD + "  ok: {ask: {title: Fine?, form: boolean, follow_up: ^soon}, writes: fine}", "'soon' is no duration", "2h30m"),
    "a priority of a task that is none": (GOOD + "  ok: {ask: {title: Fine?, form: boolean, priority: ^high}, writes: fine}", "a whole number was expected", ""),
    "an expression of a priority that comes to a text": (GOOD + "  ok: {ask: {title: Fine?, form: boolean, priority: {cel: '^\"high\"'}}, writes: fine}", "a whole number was expected", ""),
    "an expression of a span that comes to a number": (GOOD + "  ok: {ask: {title: Fine?, form: boolean, expires: {cel: ^1 + 2}}, writes: fine}", "the text of a duration was expected", ""),
    "an element that is called as a fact": (GOOD + "  ok: {ask: {title: Fine?, form: boolean}, writes: fine, each: items, as: ^amount}", "calls an element 'amount', as a fact is called", "call it otherwise"),
    "an element of nothing": (GOOD + "  ok: {ask: {title: Fine?, form: boolean}, writes: fine, as: ^item}", "no task that is written out is of each", "leave it out"),
    "an element with a space": (GOOD + "  ok: {ask: {title: Fine?, form: boolean}, writes: fine, each: items, as: ^an item}", "is no name of a fact", "letters"),
    "an element of a task with a capability": (GOOD + "  ok: {ask: {title: Fine?, form: boolean}, writes: fine, each: items, as: ^item, capability: x}", "has a capability", "leave the capability out"),
    "a task of each element without a name for it": (GOOD + "  ok: {ask: {title: Fine?, form: boolean}, writes: fine, ^each: amount}", "nothing that takes an element", "as: and a name"),
    "an escalation to nobody": (GOOD + "  ok: {ask: ^{title: Fine?, form: boolean, escalate: 1d}, writes: fine}", "not both", "escalate_to"),
    "a confidence that is none": (GOOD + "done_when: {confident: {rating: ^2}}", "a number from 0 to 1 was expected", ""),
    # ---- times
    "a cron expression that is none": (GOOD + "    on: {cron: 0 ^25 * * *}", "'25' is no hour", "see crontab(5)"),
    "a cron expression with fields too many": (GOOD + "    on: {cron: ^0 0 2 * * ? 2026}", "has 7 fields", "write five"),
    "a time zone that is none": (GOOD + "    on: {cron: 0 2 * * *, tz: ^Europe/Berln}", "there is no time zone 'Europe/Berln'", "Europe/Berlin"),
    "a moment without a time zone": (GOOD + "    on: {at: ^'2030-01-01 09:00'}", "has no time zone", "tzinfo=UTC"),
    "a moment that is in no calendar": (GOOD + "    on: {at: ^2030-13-01T00:00:00Z}", "'2030-13-01T00:00:00Z' is no moment", "name a fact that holds one"),
    "an empty cron expression": (GOOD + "    on: {cron: ^''}", "is empty, and text was expected", "leave the key out"),
    "an empty name of a case": (GOOD.replace("case: loan", "case: ^''"), "is empty, and text was expected", "give it"),
    "an empty path of a definition": (GOOD + "  sub: {case: {definition: ^'', start: {amount: amount}}, writes: fine}", "is empty, and text was expected", "give it"),
    "two times in one": (GOOD + "    on: ^{after: 2d, every: 1h}", "has after and every", "in a list under times:"),
    "a time that is none": (GOOD + "    on: {times: [^{tz: UTC}]}", "says no time", "give one of after"),
    "an option of another time": (GOOD + "    on: {every: 1h, ^tz: UTC}", "'tz' says nothing of 'every'", "every takes catch_up"),
    "a catch-up that is none": (GOOD + "    on: {every: 1h, catch_up: ^onec}", "'onec' is no choice", "did you mean 'once'?"),
    "a catch-up for several times": (GOOD + "    on: {after: 1h, catch_up: ^all}", "has one occurrence", "say 'once' or 'skip'"),
    "a fact of time that is not there": (GOOD + "    on: {after: 1h, since: ^ratng}", "counts from 'ratng'", "did you mean 'rating'?"),
    # ---- the whole
    "a goal that is no fact": (GOOD + "goal: ^ratng", "is used but not declared", "did you mean 'rating'?"),
    "a goal in a list that is no fact": (GOOD + "goal: {all_of: [rating, ^ratng]}", "is used but not declared", "did you mean 'rating'?"),
    "an empty goal": (GOOD + "goal: {any_of: ^[]}", "a list of goals was expected", ""),
    "a capability that nobody has": (GOOD + "bindings: {score: {capability: ^scoring}}", "no worker has the capability 'scoring'", ""),
    "a guard on a worker of a capability": (GOOD + "    capability: scoring\n    ^when: amount > 3", "has a capability, and when would be of its binding", "give that to a binding"),
    "a member that is not there": (GOOD + "stages: {intake: {members: [^rat]}}", "names 'rat', which is no binding, milestone or stage", "did you mean 'rate'?"),
    "stages that lie in each other": (GOOD + "stages:\n  ^one: {members: [two]}\n  two: {members: [one]}", "lies within itself: one in two in one", "take one out"),
    "a milestone that is not there": (GOOD + "stages: {intake: {members: [rate], entry: {reached: ^raetd}}}\nmilestones: {rated: rating > 3.0}", "waits for the milestone 'raetd'", "did you mean 'rated'?"),
    "a signal that is not declared": (GOOD + "    on: {signals: ^abort}", "waits for the signal 'abort'", ""),
    "a trigger by an unknown fact": (GOOD + "    on: ^amuont", "waits for a change of 'amuont'", "did you mean 'amount'?"),
    "a name with a space": (GOOD.replace("case: loan", "case: ^a loan"), "its name is no name", "use up to 100 letters"),
    "a test of a fact that is not there": (GOOD + "done_when: {present: ^ratng}", "tests 'ratng', which nobody writes", "did you mean 'rating'?"),
    "an activity of nobody": (GOOD + "activities: {Paid: {worker: ^ratee}}", "is the result of 'ratee'", "did you mean 'rate'?"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_at_its_place(name: str) -> None:
    marked, reason, remedy = MISTAKES[name]
    at = marked.index("^")
    line, column = marked.count("\n", 0, at) + 1, at - (marked.rfind("\n", 0, at) + 1) + 1
    with pytest.raises(DefinitionError) as caught:
        loads(marked.replace("^", "", 1), "loan.yaml", allow_code=ALLOWED)
    problems = caught.value.problems
    assert [each.place for each in problems] == [f"loan.yaml:{line}:{column}"], caught.value
    assert reason in f"{problems[0].subject}: {problems[0].reason}"
    assert remedy in problems[0].remedy


def test_there_are_mistakes_enough() -> None:
    assert len(MISTAKES) >= 40


def test_all_mistakes_of_a_file_are_told_at_once_in_order() -> None:
    text = """
case: loan
inputs: {amount: nmber}
workers:
  rate:
    set: {rating: amuont / 1000}
    timeout: 30
    retry: {attempts: 0}
goal: ratng
"""
    with pytest.raises(DefinitionError) as caught:
        loads(text, "loan.yaml")
    assert [each.place.removeprefix("loan.yaml:") for each in caught.value.problems] == [
        "3:18", "6:19", "7:14", "8:23", "9:7",
    ]  # fmt: skip


CODE = """
case: pay
inputs: {amount: number, items: "list[number]"}
workers:
  plan: {run: "mycode:plan", writes: receipt}
  check: {run: "mycode:check"}
  each: {run: "mycode:each", each: items, writes: parts}
  able: {run: "mycode:able", capability: x}
  send: {set: {sent: receipt.id}, when: "present(receipt) && checked > 3"}
  wrong: {set: {late: amount + "x"}}
bindings:
  b: {capability: x}
stages:
  s: {members: [plan, sned]}
goals:
  g: {all: [{run: "mycode:good"}, {present: parts}]}
goal: g
"""


def test_code_that_is_not_allowed_is_all_that_is_said_of_what_it_would_have_told() -> None:
    with pytest.raises(DefinitionError) as caught:
        loads(CODE, "pay.yaml")
    said = [(each.place.removeprefix("pay.yaml:"), "mycode" in each.reason) for each in caught.value.problems]
    assert said == [
        ("5:15", True),
        ("6:16", True),
        ("7:15", True),
        ("8:15", True),
        ("10:30", False),
        ("14:23", False),
        ("16:19", True),
    ]


def test_a_gate_that_is_wrong_takes_nothing_else_along() -> None:
    text = """
case: pay
inputs: {payees: "list[string]", amount: number}
workers:
  pay: {run: "tests.loader.code:plan_each", writes: receipts, each: payees, gate: {perform: "tests.loader.code:transfer", approvals: 0}}
goal: receipts
"""
    with pytest.raises(DefinitionError) as caught:
        loads(text, allow_code=ALLOWED)
    assert len(caught.value.problems) == 1


def test_a_file_that_is_too_large_is_refused() -> None:
    with pytest.raises(DefinitionError, match="1,080,008 characters, and 1,048,576 are the most"):
        loads("case: x\n" + "# a comment\n" * 90_000)


def test_a_bomb_of_aliases_is_refused_quickly() -> None:
    lines = ["case: x", "a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    with pytest.raises(DefinitionError, match="50,000 values"):
        loads("\n".join(lines))


def test_on_and_no_stay_what_they_are() -> None:
    definition = loads("""
case: no
inputs: {country: {type: string, default: NO}, at: {type: string, default: 12:30:00}}
workers:
  greet:
    set: {greeting: '"hello " + country'}
    on: country
""")
    assert definition.name == "no"
    assert definition.bindings[0].on.facts == ("country",)
    assert {name: getattr(definition.inputs, name) for name in ("country", "at")} == {"country": "NO", "at": "12:30:00"}
