"""Settings: flag, environment, file, default, in this order; a name that is none is an error."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from casehub.errors import SettingsError
from casehub.settings import Settings, load, variable


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (*Settings.model_fields, "config"):
        monkeypatch.delenv(variable(name), raising=False)


def write(text: str, path: str = "casehub.toml") -> None:
    tomllib.loads(text)
    Path(path).write_text(text)


def test_each_source_gives_way_to_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load().settings.db == "sqlite:///casehub.db"
    assert load().origins["db"] == "default"
    write('db = "file.db"\ndrain-timeout = "1m"')
    assert (load().settings.db, load().origins["db"]) == ("sqlite:///file.db", "casehub.toml")
    assert load().settings.drain_timeout == "1m"
    monkeypatch.setenv("CASEHUB_DB", "sqlite:////var/lib/env.db")
    assert (load().settings.db, load().origins["db"]) == ("sqlite:////var/lib/env.db", "CASEHUB_DB")
    flagged = load({"db": "flag.db", "app": None})
    assert (flagged.settings.db, flagged.origins["db"]) == ("sqlite:///flag.db", "--db")
    assert (flagged.given("db"), flagged.given("app"), flagged.given("drain_timeout")) == (True, False, True)


def test_the_file_can_be_another_and_must_be_there_then(monkeypatch: pytest.MonkeyPatch) -> None:
    write('tenant = "north"', "north.toml")
    assert load(file="north.toml").settings.tenant == "north"
    monkeypatch.setenv("CASEHUB_CONFIG", "north.toml")
    assert load().origins["tenant"] == "north.toml"
    with pytest.raises(SettingsError, match=r"settings file south\.toml: it is not there"):
        load(file="south.toml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('databas = "x"', "there is no setting 'databas'"),
        ('drain_timout = "1s"', "did you mean 'drain_timeout'?"),
        ('drain_timeout = "a while"', r"setting drain_timeout \(casehub.toml\): 'a while': .*write numbers with units"),
        ("drain_timeout = 30", r"setting drain_timeout \(casehub.toml\): 30: .*string"),
        ('log_level = "warn"', "'warn': it is none of debug, info, warning, error; did you mean 'warning'?"),
    ],
)
def test_what_is_wrong_in_the_file_is_named_with_the_file(text: str, said: str) -> None:
    write(text)
    with pytest.raises(SettingsError, match=said.replace("?", r"\?") if "(" not in said else said):
        load()


def test_a_file_that_is_no_toml_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("casehub.toml").write_text("db = \n")
    with pytest.raises(SettingsError, match=r"settings file casehub\.toml: .*line 1"):
        load()


def test_an_unknown_variable_is_an_error_but_for_those_of_the_test_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CASEHUB_TEST_REDIS_URL", "redis://")
    load()
    monkeypatch.setenv("CASEHUB_DBB", "x.db")
    with pytest.raises(SettingsError, match="CASEHUB_DBB: there is no such setting; did you mean 'CASEHUB_DB'"):
        load()


def test_an_empty_variable_sets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CASEHUB_DB", "")
    assert load().origins["db"] == "default"


def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CASEHUB_LOG_FORMAT", "jsn")
    with pytest.raises(SettingsError, match=r"setting log_format \(CASEHUB_LOG_FORMAT\): 'jsn': .*did you mean 'json'"):
        load()


def test_where_snapshots_are_kept_and_when_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (load().settings.snapshots, load().settings.checkpoint) == ("", "lifecycle")
    write('snapshots = "kept.db"\ncheckpoint = 500')
    assert (load().settings.snapshots, load().settings.checkpoint) == ("sqlite:///kept.db", "500")
    monkeypatch.setenv("CASEHUB_SNAPSHOTS", "redis://localhost/1")
    monkeypatch.setenv("CASEHUB_CHECKPOINT", "waiting")
    assert (load().settings.snapshots, load().settings.checkpoint) == ("redis://localhost/1", "waiting")
    monkeypatch.setenv("CASEHUB_CHECKPOINT", "0")
    with pytest.raises(
        SettingsError, match=r"setting checkpoint \(CASEHUB_CHECKPOINT\): '0': checkpoint='0': give 'waiting'"
    ):
        load()
