import errno
import gc
import os
from pathlib import Path

import pytest

from sugarbush.errors import BudgetExceededError, GeneratorError, InputError
from sugarbush.run.error_report import format_error, run_with_error_report

SECRET = "canary-7731"


def fail(folder: Path, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.chdir(folder)

    def run(base: Path) -> None:
        raise error

    with pytest.raises(SystemExit) as stop:
        run_with_error_report("prepare", run)
    code = stop.value.code
    assert isinstance(code, int)
    return code


@pytest.mark.parametrize(
    ("error", "code"),
    [(InputError("file.csv, row 3: empty"), 2), (BudgetExceededError("cap 1"), 1)],
)
def test_a_failure_is_one_message_and_its_exit_code(
    tmp_path: Path, error: Exception, code: int, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert fail(tmp_path, error, monkeypatch) == code
    told = capsys.readouterr().err
    assert told == f"prepare: {error}\n"
    log = tmp_path / "reports/internal/errors.log"
    assert str(error) in log.read_text()
    assert log.stat().st_mode & 0o077 == 0


def test_a_full_disk_is_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = OSError(errno.ENOSPC, "No space left on device", "data/private/x")
    assert fail(tmp_path, error, monkeypatch) == 1
    assert "No space left on device" in capsys.readouterr().err


@pytest.mark.parametrize("number", [errno.ENAMETOOLONG, errno.ENOTDIR])
def test_an_impossible_path_is_no_fault_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    assert fail(tmp_path, OSError(number, os.strerror(number), "in.csv/x"), monkeypatch) == 1
    assert capsys.readouterr().err == f"prepare: in.csv/x: {os.strerror(number)}\n"


def test_a_fault_of_ours_withholds_its_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fail(tmp_path, KeyError(SECRET), monkeypatch) == 70
    told = capsys.readouterr().err
    assert "KeyError" in told
    assert "test_entry_point.py" in told
    log = (tmp_path / "reports/internal/errors.log").read_text()
    assert SECRET not in told + log


def test_under_a_flow_the_terminal_is_told_nothing_but_where_to_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SUGARBUSH_QUIET_ERRORS", "1")
    fail(tmp_path, InputError("file.csv, row 3: empty"), monkeypatch)
    told = capfd.readouterr().err
    assert "row 3" not in told
    assert "errors.log" in told


def test_objects_of_a_failed_stage_do_not_write_to_the_terminal_of_a_flow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    class Late:
        def __del__(self) -> None:  # Python prints an error of this method with its message
            os.write(2, b"canary-1")

    def fail(base: Path) -> None:
        late = Late()
        raise ValueError(type(late).__name__)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUGARBUSH_QUIET_ERRORS", "1")
    with pytest.raises(SystemExit):
        run_with_error_report("evolve", fail)
    gc.collect()
    assert "canary" not in capfd.readouterr().err
    assert "canary" in (tmp_path / "reports/internal/stderr.log").read_text()


def test_a_message_cannot_change_what_else_the_terminal_shows() -> None:
    message = "http://x says:\x1b]52;c;aGk=\x07 \x1b[2J\x9b1m\rno\u202e\nstöp 日本"
    assert format_error(GeneratorError(message))[0].split() == [
        "http://x", "says:", "]52;c;aGk=", "[2J", "1m", "no", "stöp", "日本"
    ]  # fmt: skip
