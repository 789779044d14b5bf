"""Settings: a flag, else the environment (`CASEHUB_DB`), else `casehub.toml`, else the default, in this order.

A name that is none is an error that says the nearest: a misspelt setting must not be a silent default.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast, get_args

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from casehub.durations import duration
from casehub.errors import CaseHubError, SettingsError, did_you_mean, nearest
from casehub.retention import OFF
from casehub.snapshot import checkpoint_of

PREFIX: Final = "CASEHUB_"
FILE: Final = "casehub.toml"
_FOREIGN: Final = ("CASEHUB_TEST_",)
"""Beginnings of variables that belong to others: to this project's own test suite."""


def _span(text: str) -> str:
    try:
        duration(text)
    except CaseHubError as error:
        raise ValueError(str(error)) from None
    return text


def _span_or_off(text: str) -> str:
    return text if text == OFF else _span(text)


def _url(text: str) -> str:
    """A path is a SQLite file; everything else is a URL already."""
    return text if "://" in text else f"sqlite:///{text}"


def _url_or_none(text: str) -> str:
    return _url(text) if text else text


def _text(value: object) -> object:
    """A whole number, as text."""
    return str(value) if type(value) is int else value


def _checkpoint(text: str) -> str:
    try:
        checkpoint_of(text)
    except CaseHubError as error:
        raise ValueError(str(error)) from None
    return text


def _loops(value: object) -> object:
    """A table of loop controls by definition, as text."""
    if isinstance(value, dict):
        table = cast("dict[str, object]", value)
        return ",".join(f"{name}={reference}" for name, reference in table.items())
    return value


class Settings(BaseSettings):
    """Everything that can be set. The descriptions are shown by `casehub doctor`."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, extra="forbid", env_ignore_empty=True, validate_default=False, frozen=True
    )

    app: Annotated[str, Field(description="what is worked: module:attribute, or the path of a definition")] = ""
    allow_code: Annotated[str, Field(description="packages that definitions in YAML may refer to, by commas")] = ""
    db: Annotated[str, AfterValidator(_url), Field(description="the database: a path or a URL")] = (
        "sqlite:///casehub.db"
    )
    loop: Annotated[
        str,
        BeforeValidator(_loops),
        Field(description="the loop control or strategy: module:factory, or name=module:factory, by commas"),
    ] = ""
    snapshots: Annotated[
        str, AfterValidator(_url_or_none), Field(description="where snapshots are kept: a path or a URL")
    ] = ""
    checkpoint: Annotated[
        str,
        BeforeValidator(_text),
        AfterValidator(_checkpoint),
        Field(description="when a case is kept: waiting, lifecycle, or every so many events"),
    ] = "lifecycle"
    drain_timeout: Annotated[str, AfterValidator(_span), Field(description="how long a stop waits for workers")] = "30s"
    retention: Annotated[
        str, AfterValidator(_span_or_off), Field(description="how long cases are kept after their end; off: for ever")
    ] = "90d"
    archive: Annotated[str, Field(description="the folder for cases that are not kept any longer; empty: deleted")] = ""
    tenant: Annotated[str, Field(description="whose cases", min_length=1)] = "default"
    by: Annotated[str, Field(description="who acts, as kind:name")] = ""
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Field(description="what is logged from here up")
    ] = "info"
    log_format: Annotated[Literal["auto", "console", "json"], Field(description="the form of the log")] = "auto"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings, env_settings)  # the file is given to `load`, which puts it behind these


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, and where each has its value from: `flag`, `CASEHUB_DB`, `casehub.toml`, or `default`."""

    settings: Settings
    origins: Mapping[str, str]

    def given(self, name: str) -> bool:
        """Whether somebody set it."""
        return self.origins[name] != "default"


def load(flags: Mapping[str, str | None] | None = None, file: str | None = None) -> Loaded:
    """The settings that hold here. `flags`: by setting, None where the flag was not given; `file`: the TOML file.

    Without `file`, `CASEHUB_CONFIG` names it, else `casehub.toml` in this folder is read if it is there. Raises
    `SettingsError` for what is unknown or cannot be used.
    """
    _check_environment(os.environ)
    path = file or os.environ.get(f"{PREFIX}CONFIG")
    in_file = _read(Path(path or FILE), required=path is not None)
    given: dict[str, Any] = {name: value for name, value in (flags or {}).items() if value is not None}
    origins = {name: _origin(name, given, in_file, path or FILE) for name in Settings.model_fields}
    from_file = {name: value for name, value in in_file.items() if origins[name] == (path or FILE)}
    try:
        return Loaded(Settings(**from_file, **given), origins)
    except ValidationError as error:
        raise SettingsError("; ".join(_told(each, origins) for each in error.errors(include_url=False))) from None


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return f"{PREFIX}{name.upper()}"


def _origin(name: str, given: Mapping[str, Any], in_file: Mapping[str, Any], file: str) -> str:
    if name in given:
        return f"--{name.replace('_', '-')}"
    if os.environ.get(variable(name)):
        return variable(name)
    return file if name in in_file else "default"


def _check_environment(environment: Mapping[str, str]) -> None:
    known = {variable(name) for name in (*Settings.model_fields, "config")}
    for name in environment:
        if name.startswith(PREFIX) and name not in known and not name.startswith(_FOREIGN):
            raise SettingsError(f"environment variable {name}: there is no such setting; {did_you_mean(name, known)}")


def _read(path: Path, *, required: bool) -> dict[str, Any]:
    """What the file sets. Names with a hyphen are those with an underscore."""
    if not path.is_file():
        if required:
            raise SettingsError(f"settings file {path}: it is not there; give --config the path of a TOML file")
        return {}
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise SettingsError(f"settings file {path}: {error}; mend it, or give another with --config") from None
    found = {name.replace("-", "_"): value for name, value in content.items()}
    for name in found:
        if name not in Settings.model_fields:
            raise SettingsError(
                f"settings file {path}: there is no setting {name!r}; {did_you_mean(name, Settings.model_fields)}"
            )
    return found


def _told(error: Any, origins: Mapping[str, str]) -> str:
    name = str(error["loc"][0])
    reason = error["msg"].removeprefix("Value error, ")
    if error["type"] == "literal_error":
        choices = get_args(Settings.model_fields[name].annotation)
        near = nearest(str(error["input"]), choices)
        reason = f"it is none of {', '.join(choices)}" + (f"; did you mean {near!r}?" if near else "")
    return f"setting {name} ({origins.get(name, 'flag')}): {error['input']!r}: {reason[:1].lower()}{reason[1:]}"
