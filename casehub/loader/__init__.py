"""Cases written in YAML: a text becomes a `CaseDefinition`, or every mistake in it with its place. From text to meaning:

    document       YAML as a tree with places; nothing in it can run, explode or stand twice
    vocabulary     the keys, what they take and mean
    sections       mappings read by the vocabulary
    fact_types     types of facts; JSON Schema
    code           Python that a definition refers to, of allowed packages only
    expressions    conditions and computations over facts
    cel            ... in CEL, checked and typed at load
    jq             ... in jq, in a process of its own (jq_process)
    conditions     expressions and tests of presence, as sentries
    triggers       facts, events, signals and times that make a binding come up
    policies       retries, merging, budgets
    people         tasks for people
    gates          what stands between a planned action and its being done
    subcases       work that cases of another definition do
    workers        functions, computations, people and sub-cases, with their bindings
    mistakes       what is wrong with a text, with its places
    places         where an element stands, for what is found in the whole
    definitions    all of it, as a definition
    original       the format of CaseHub for Java, translated (original_keys, original_terms, projections, groups, quartz)
    editor_schema  the JSON Schema for editors
    rehearsal      cases with made-up answers of workers, against what is expected of them

`load` and `loads` are the whole of it for others.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as Mapped
from pathlib import Path

from casehub.definition import CaseDefinition
from casehub.errors import DefinitionError, SettingsError
from casehub.loader.code import AllowedCode
from casehub.loader.definitions import DefinitionReader
from casehub.loader.document import MAX_SIZE, Mapping, Scalar, read
from casehub.loader.editor_schema import schema
from casehub.loader.mistakes import Mistakes, Place
from casehub.loader.original import OriginalReader
from casehub.loader.projections import Function
from casehub.loader.rehearsal import Rehearsal
from casehub.lookup import ENDINGS, KEPT
from casehub.values import Plain

__all__ = ["load", "load_versions", "loads", "rehearsal_of", "schema"]


def load(
    path: str | Path, *, allow_code: Iterable[str] = (), workers: Mapped[str, Function] | None = None
) -> CaseDefinition:
    """The definition in a file. Raises `DefinitionError` with every mistake, `SettingsError` for what is no file."""
    return loads(_text(Path(path)), str(path), allow_code=allow_code, workers=workers)


def load_versions(
    path: str | Path, *, allow_code: Iterable[str] = ()
) -> tuple[list[CaseDefinition], list[CaseDefinition]]:
    """The definitions in a file, or in the files of a folder, and the versions that are kept beside them, in `kept`.

    They may be sub-cases of each other. Of a file only the kept versions of what it defines count. Raises what `load`
    does, and `SettingsError` for a folder without a definition.
    """
    path, loaded, packages = Path(path), dict[Path, CaseDefinition](), tuple(allow_code)
    folder = path if path.is_dir() else path.parent
    files = _files(path) if path.is_dir() else [path]
    if not (files or _files(folder / KEPT)):
        raise SettingsError(f"{str(path)!r} has no file that ends in {' or '.join(ENDINGS)}; name one that has")
    for file in files:
        _load_into(loaded, file, packages)
    there = list(loaded.values())
    names = {definition.name for definition in there}
    for file in _files(folder / KEPT):
        if path.is_dir() or _name_in(file) in names:
            _load_into(loaded, file, packages)
    current = there if path.is_dir() else there[-1:]  # its sub-cases come with it
    return current, list(loaded.values())[len(there) :]


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix in ENDINGS) if folder.is_dir() else []


def _load_into(loaded: dict[Path, CaseDefinition], path: Path, allow_code: tuple[str, ...]) -> None:
    file = path.resolve()
    if file not in loaded:
        loaded[file] = loads(_text(path), str(path), allow_code=allow_code, loaded=loaded)


def _name_in(path: Path) -> Plain:
    """The name of the definition in a file; None where that cannot be told."""
    node = read(_text(path), Mistakes(str(path)))
    name = node.values.get("case") if isinstance(node, Mapping) else None
    return None if name is None else name.plain()


def loads(
    text: str,
    file: str = "definition.yaml",
    *,
    allow_code: Iterable[str] = (),
    workers: Mapped[str, Function] | None = None,
    inside: tuple[str, ...] = (),
    loaded: dict[Path, CaseDefinition] | None = None,
) -> CaseDefinition:
    """The definition that a text is. `file`: what messages call it; `allow_code`: packages whose code it may refer to;
    `workers`: the code of a definition in the original's format, by the names of its workers; `inside`: the files that it is a sub-case of; `loaded`: what is
    loaded already, by files.

    Raises `DefinitionError` with every mistake, each with its line and column.
    """
    mistakes = Mistakes(file)
    node = read(text, mistakes)
    definition = None
    packages, known = tuple(allow_code), {} if loaded is None else loaded

    def opened(path: Scalar, subject: str, around: CaseDefinition) -> CaseDefinition | None:
        return _sub_case(path, subject, around, mistakes, packages, inside, known)

    if isinstance(node, Mapping) and "dsl" in node.values:
        definition = OriginalReader(node, mistakes, workers or {}, opened).definition()
    elif isinstance(node, Mapping):
        if workers:
            raise SettingsError(
                f"definition {file}: workers= is for the original's format; name code by run: in this one"
            )
        definition = DefinitionReader(node, mistakes, AllowedCode(packages, mistakes), opened).definition()
    elif not len(mistakes):
        place = Place(file, 1, 1) if node is None else node.place
        what = "is empty" if node is None else f"is {node.kind}"
        mistakes.note(place, "the file", f"{what}, and a definition was expected", "begin with case: and a name")
    if definition is None or len(mistakes):
        raise mistakes.error(file)
    return definition


def _sub_case(
    node: Scalar, subject: str, around: CaseDefinition, mistakes: Mistakes, allow_code: Iterable[str],
    inside: tuple[str, ...], loaded: dict[Path, CaseDefinition],
) -> CaseDefinition | None:  # fmt: skip
    """The definition that a path names, from the file of `around`, which may be itself; mistakes in it are told as one of
    this file."""
    path = str(_beside(Path(mistakes.file).parent, node.text))
    file = Path(path).resolve()
    if file == Path(mistakes.file).resolve():
        return around
    if file in (Path(each).resolve() for each in inside):
        mistakes.note(
            node.place, subject, f"{node.text!r} starts itself in the end", "only a file by itself may; leave one out"
        )
        return None
    try:
        if file not in loaded:
            within = (*inside, mistakes.file)
            loaded[file] = loads(_text(Path(path)), path, allow_code=allow_code, inside=within, loaded=loaded)
        return loaded[file]
    except DefinitionError as error:
        mistakes.note(
            node.place,
            subject,
            f"{node.text!r} has {len(error.problems)} mistakes of its own, the first: {error.problems[0]}",
            "mend that file",
        )
    except SettingsError as error:
        mistakes.note(node.place, subject, str(error), "name a file that is there")
    return None


def _beside(folder: Path, name: str) -> Path:
    """The file that another names; one that was moved into `kept` names those that it lay beside, as before."""
    path = folder / name
    return path if folder.name != KEPT or path.exists() else folder.parent / name


def rehearsal_of(path: str | Path) -> Rehearsal:
    """The rehearsal in a file. Raises what `load` does."""
    mistakes = Mistakes(str(path))
    return Rehearsal(read(_text(Path(path)), mistakes), mistakes)


def _text(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            content = stream.read(4 * MAX_SIZE + 1)
        return content.decode("utf-8-sig")
    except OSError as error:
        raise SettingsError(f"definition {file}: {error.strerror}; give the path of a YAML file") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"definition {file}: byte {error.start} is no UTF-8; save the file as UTF-8") from None
