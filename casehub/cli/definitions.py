"""`def`: look at definitions before cases depend on them: validate, show, draw, compare, rehearse."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter
from pydantic_core import to_json

from casehub.cli.application import definitions_of, is_file, registry_of
from casehub.cli.loops import loops_named
from casehub.cli.options import Common, Loading, Session
from casehub.cli.text import compact
from casehub.diagram import diagram_of
from casehub.errors import CaseHubError, SettingsError, UnknownNameError, did_you_mean
from casehub.lookup import adapter
from casehub.outline import differences, outline
from casehub.problems import Exit, problem
from casehub.structure import Structure
from casehub.validation import build

APP = "module:attribute, the path of a definition in YAML, or of a folder with several."

schema_app = App(
    name="schema",
    help_epilogue="""A file that begins with
  # yaml-language-server: $schema=casehub.schema.json
is completed and checked by editors with the YAML language server.

Examples:
  casehub def schema > casehub.schema.json""",
)


@schema_app.default
def show_schema(*, common: Common | None = None) -> None:
    """Print the JSON Schema of definitions in YAML, for editors."""
    Session(common).printer.text(to_json(adapter("loader").schema(), indent=2).decode())


validate_app = App(
    name="validate",
    help_epilogue="""Every mistake is told, with its file, line and column. Ends with 8 when there
is one.

Examples:
  casehub def validate cases/loan.yaml --allow-code loans
  casehub def validate examples.claim:claim cases -o json""",
)


@validate_app.default
def validate(*apps: Annotated[str, Parameter(name="APP", help=APP)], common: Loading | None = None) -> int:
    """Load definitions and say what is wrong with them."""
    session = Session(common)
    if not apps:
        raise SettingsError("APP is missing: say what to validate, such as 'casehub def validate cases/loan.yaml'")
    items: list[dict[str, Any]] = []
    wrong: list[CaseHubError] = []
    for app in apps:
        try:
            registry = registry_of(app, session.allow_code)
            current = registry.structures.values()
            items += [_summary(app, each, kept=each not in current) for each in registry.versions.values()]
        except CaseHubError as error:
            wrong.append(error)
    if len(apps) == 1 and wrong:
        raise wrong[0]
    items += [{"app": None, "problem": problem(error)} for error in wrong]
    session.printer.items(items, ("definition", "bindings", "stages", "goals", "version", "from"), _summary_row)
    return Exit.DEFINITION_INVALID if wrong else Exit.OK


def _summary(app: str, structure: Structure, *, kept: bool) -> dict[str, Any]:
    return {
        "app": app,
        "definition": structure.name,
        "bindings": len(structure.bindings),
        "stages": len(structure.stages),
        "goals": len(structure.goals),
        "structure": structure.hash,
        "kept": kept,
    }


def _summary_row(item: Mapping[str, Any]) -> tuple[Any, ...]:
    if item["app"] is None:
        return ("invalid", "", "", "", "", item["problem"]["detail"])
    name = f"{item['definition']} (kept)" if item["kept"] else item["definition"]
    return (name, *(item[key] for key in ("bindings", "stages", "goals", "structure", "app")))


show_app = App(
    name="show",
    help_epilogue="""Examples:
  casehub def show examples.claim:claim
  casehub def show cases/loan.yaml --allow-code loans -o json""",
)


@show_app.default
def show(
    app: Annotated[str, Parameter(name="APP", help=APP)],
    /,
    *,
    definition: Annotated[str | None, Parameter(help="Which one, where APP has several.")] = None,
    common: Loading | None = None,
) -> None:
    """Show everything that a definition says."""
    session = Session(common)
    found = outline(_structure(session, app, definition))
    if not session.printer.for_people:
        session.printer.document(found)
        return
    rows = [
        (f"{kind} {name}", f"{key}: {_short(value)}" if key else "")
        for kind, elements in found.items()
        for name, element in elements.items()
        for key, value in (element.items() or [("", "")])
    ]
    told: set[str] = set()
    for place, (subject, text) in enumerate(rows):
        rows[place] = ("" if subject in told else subject, text)
        told.add(subject)
    session.printer.table(("", ""), rows, heading=False)


diagram_app = App(
    name="diagram",
    help_epilogue="""Boxes are bindings, arrows the facts that lead from one to the next; a dashed
arrow is a fact that is only tested. GitHub and GitLab draw Mermaid.

Examples:
  casehub def diagram examples.claim:claim
  casehub def diagram cases/loan.yaml --allow-code loans --out loan.svg""",
)


@diagram_app.default
def diagram(
    app: Annotated[str, Parameter(name="APP", help=APP)],
    /,
    *,
    definition: Annotated[str | None, Parameter(help="Which one, where APP has several.")] = None,
    format: Annotated[
        Literal["mermaid", "svg"] | None,
        Parameter(help="The form; without it the ending of --out says it, and mermaid is the default."),
    ] = None,
    out: Annotated[str | None, Parameter(help="The file. Without it: standard output.")] = None,
    common: Loading | None = None,
) -> None:
    """Draw a definition."""
    session = Session(common)
    drawn = diagram_of(_structure(session, app, definition))
    svg = format == "svg" or (format is None and out is not None and out.endswith(".svg"))
    text = drawn.svg() if svg else drawn.mermaid()
    if out is not None:
        Path(out).write_text(text, encoding="utf-8")
        session.printer.say(f"{out}: {len(drawn.nodes)} boxes, {len(drawn.arrows)} arrows")
    else:
        session.printer.text(text)


diff_app = App(
    name="diff",
    help_epilogue="""It compares what they say: names, reads, writes, conditions, policies, types,
stages; not the bodies of functions. Ends with 1 when they differ.

Examples:
  casehub def diff loan.yaml loan-2.yaml --allow-code loans
  casehub def diff examples.claim:claim claim.yaml --allow-code examples""",
)


@diff_app.default
def diff(
    before: Annotated[str, Parameter(name="BEFORE", help=APP)],
    now: Annotated[str, Parameter(name="NOW", help=APP)],
    /,
    *,
    definition: Annotated[str | None, Parameter(help="Which one, where they have several.")] = None,
    common: Loading | None = None,
) -> int:
    """Say what differs between two definitions."""
    session = Session(common)
    one, other = (outline(_structure(session, app, definition)) for app in (before, now))
    found = differences(one, other)
    session.printer.items(
        [
            {
                "kind": each.kind,
                "name": each.name,
                "change": each.change,
                "details": {key: {"before": was, "now": is_} for key, (was, is_) in each.details.items()},
            }
            for each in found
        ],
        ("", "what", "from", "to"),
        lambda item: (item["change"], f"{item['kind']} {item['name']}", *_details(item["details"])),
        empty="no difference",
    )
    return Exit.FAILED if found else Exit.OK


def _details(details: Mapping[str, Mapping[str, Any]]) -> tuple[str, str]:
    return (
        "; ".join(f"{key}: {_short(each['before'])}" for key, each in details.items()),
        "; ".join(f"{key}: {_short(each['now'])}" for key, each in details.items()),
    )


def _short(value: Any) -> str:
    return "-" if value is None else value if isinstance(value, str) else compact(value, 200)


test_app = App(
    name="test",
    help_epilogue="""FILE is YAML: the definition, and cases with the facts that they start with,
what workers answer, what happens then, and what is expected. No worker with an
answer is run; time is virtual. Ends with 1 when something is not as expected.

Examples:
  casehub def test cases/loan.test.yaml --allow-code loans""",
)


@test_app.default
async def rehearse(
    *files: Annotated[str, Parameter(name="FILE", help="The rehearsals.")],
    loop: Annotated[str | None, Parameter(help="The loop control: module:factory. [env: CASEHUB_LOOP]")] = None,
    common: Loading | None = None,
) -> int:
    """Play cases of a definition with made-up answers of its workers."""
    session = Session(common, loop=loop)
    if not files:
        raise SettingsError("FILE is missing: say what to play, such as 'casehub def test cases/loan.test.yaml'")
    items: list[dict[str, Any]] = []
    for file in files:
        rehearsal = adapter("loader").rehearsal_of(file)
        app = rehearsal.definition
        if is_file(app):
            app = str(Path(file).parent / app)
        structure = _structure(session, app, rehearsal.only or None)
        names = [each.name for each in definitions_of(app, session.allow_code)]
        control = loops_named(session.settings.loop, names)
        items += [
            {
                "file": file,
                "case": each.name,
                "ok": not each.problems,
                "status": each.status,
                "ran": each.ran,
                "problems": each.problems,
            }
            for each in await rehearsal.play(structure.definition, control)
        ]
    session.printer.items(
        items,
        ("", "case", "ended", "found"),
        lambda item: (
            "ok" if item["ok"] else "fault",
            item["case"],
            item["status"],
            "; ".join(item["problems"]) or ", ".join(item["ran"]),
        ),
    )
    return Exit.OK if all(item["ok"] for item in items) else Exit.FAILED


def _structure(session: Session, app: str, name: str | None) -> Structure:
    """The definition that is meant. Raises `UnknownNameError` where that is not clear."""
    found = {each.name: each for each in definitions_of(app, session.allow_code)}
    if name is None and len(found) == 1:
        name = next(iter(found))
    if name is None:
        raise UnknownNameError(f"{app} has several definitions: {', '.join(found)}; say which with --definition")
    if name not in found:
        raise UnknownNameError(f"{app} has no definition {name!r}; {did_you_mean(name, found)}")
    return build(found[name])
