"""Tests that no error of an observer ends a stage or replaces an error of the stage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sugarbush import registry
from sugarbush.errors import ParamsError
from sugarbush.run.observers import StageExecution, observed, require_packages

EXECUTION = StageExecution(
    stage="evolve", method="maple", dataset="letters", base=Path(), inputs=(), outputs=(),
    published=Path("reports/public"),
)  # fmt: skip


def install(monkeypatch: pytest.MonkeyPatch, observer: type) -> None:
    """Register a class as the only observer."""
    monkeypatch.setattr(registry, "_entry_points", lambda *_: registry.EntryPoints(()))
    monkeypatch.setitem(registry._OF_THIS_PROCESS, (registry.STAGE_OBSERVERS, "own"), observer)


def observer_that(context: Any) -> type:
    class Observer:
        def require_packages(self, base: Path) -> None:
            raise ParamsError(f"{base}: a package is missing")

        def observing(self, execution: StageExecution) -> Any:
            return context(execution)

    return Observer


@contextmanager
def fails_at_start(_: StageExecution) -> Iterator[None]:
    raise ConnectionError("http://user:secret-key@host")
    yield


@contextmanager
def fails_at_end(_: StageExecution) -> Iterator[None]:
    try:
        yield
    finally:
        raise ConnectionError("http://user:secret-key@host")


def fails_at_once(_: StageExecution) -> Any:
    raise ConnectionError("http://user:secret-key@host")


@pytest.mark.parametrize("context", [fails_at_start, fails_at_end, fails_at_once])
def test_an_error_of_an_observer_ends_no_stage_and_its_message_is_not_printed(
    context: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch, observer_that(context))
    done = False
    with observed(EXECUTION):
        done = True
    assert done
    with pytest.raises(ValueError, match="of the stage"), observed(EXECUTION):
        raise ValueError("of the stage")
    printed = capsys.readouterr().err
    assert printed.count("an observer of stage evolve failed (ConnectionError)") == 2
    assert "secret-key" not in printed


def test_an_observer_cannot_hide_an_error_of_the_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    @contextmanager
    def hides(execution: StageExecution) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            seen.append((execution, str(error)))

    install(monkeypatch, observer_that(hides))
    with pytest.raises(ValueError, match="of the stage"), observed(EXECUTION):
        raise ValueError("of the stage")
    assert seen == [(EXECUTION, "of the stage")]


def test_an_error_of_the_stage_that_an_observer_raises_again_is_not_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def passes(_: StageExecution) -> Iterator[None]:
        yield

    install(monkeypatch, observer_that(passes))
    with pytest.raises(KeyboardInterrupt), observed(EXECUTION):
        raise KeyboardInterrupt
    with pytest.raises(ValueError, match="of the stage"), observed(EXECUTION):
        raise ValueError("of the stage")
    assert capsys.readouterr().err == ""


def test_a_missing_package_of_an_observer_is_an_error_before_a_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, observer_that(fails_at_once))
    with pytest.raises(ParamsError, match="a package is missing"):
        require_packages(Path())
