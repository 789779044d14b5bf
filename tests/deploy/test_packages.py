"""Programs that tests use: installed where they are missing, or missing with a reason."""

from __future__ import annotations

import shutil

import pytest

from deploy import packages
from deploy.packages import MissingServiceError


def test_what_is_missing_is_installed_and_what_is_there_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    installed: list[str] = []
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "strace" else f"/usr/bin/{name}")
    monkeypatch.setattr(packages, "install", installed.append)
    assert packages.main(["strace", "env"]) == 0
    assert installed == ["strace"]


def test_what_cannot_be_had_is_said_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unreachable(package: str) -> None:
        raise MissingServiceError(f"apt-get failed: no route\nto {package}")

    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(packages, "install", unreachable)
    assert packages.main(["strace"]) == 1
    assert "NO STRACE: apt-get failed: no route to strace" in capsys.readouterr().err
