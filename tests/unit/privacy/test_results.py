import multiprocessing
from pathlib import Path

import pytest

from sugarbush.errors import PrivacyError
from sugarbush.privacy.results import ResultStore, digest_of, open_result_store


def opened(state: Path, *, forced: bool = False):
    return open_result_store(
        state, dataset="d", stage="evolve-maple", key={"a": "abc"}, forced=forced
    )


def draw(draws: ResultStore, name: str, text: str) -> None:
    with draws.writing(name) as folder:
        (folder / "votes").write_text(text)


def test_a_finished_result_is_found_again(tmp_path: Path) -> None:
    with opened(tmp_path) as draws:
        assert draws.finished("votes-001") is None
        draw(draws, "votes-001", "3")
    with opened(tmp_path) as draws:
        found = draws.finished("votes-001")
        assert found is not None
        assert (found / "votes").read_text() == "3"


def test_a_finished_result_is_never_overwritten(tmp_path: Path) -> None:
    with opened(tmp_path) as draws:
        draw(draws, "votes-001", "3")
        with pytest.raises(PrivacyError, match="must not be overwritten"):
            draw(draws, "votes-001", "4")


def test_a_result_is_not_finished_after_a_crash_while_writing(tmp_path: Path) -> None:
    with opened(tmp_path) as draws:
        with pytest.raises(RuntimeError), draws.writing("votes-001") as folder:
            (folder / "votes").write_text("3")
            raise RuntimeError
        assert draws.finished("votes-001") is None
        assert [p.name for p in draws.folder.iterdir()] == ["run"]


def test_a_forced_run_starts_a_new_generation_and_can_be_resumed(tmp_path: Path) -> None:
    with opened(tmp_path) as draws:
        draw(draws, "votes-001", "3")
        first = draws.run
    with opened(tmp_path, forced=True) as draws:
        assert draws.finished("votes-001") is None
        draw(draws, "votes-001", "4")
        assert draws.run != first
    with opened(tmp_path) as draws:
        found = draws.finished("votes-001")
        assert found is not None
        assert (found / "votes").read_text() == "4"


def test_another_digest_shares_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as draws:
        draw(draws, "votes-001", "3")
    with open_result_store(
        tmp_path, dataset="d", stage="evolve-maple", key={"a": "other"}, forced=False
    ) as draws:
        assert draws.finished("votes-001") is None


def test_a_digest_depends_on_values_and_not_on_their_order() -> None:
    assert digest_of(a=1, b={"x": 1, "y": 2}) == digest_of(b={"y": 2, "x": 1}, a=1)
    assert digest_of(a=1) != digest_of(a=2)
    assert digest_of(a="1") != digest_of(a=1)


def _draw_if_missing(state: str) -> None:
    with opened(Path(state)) as draws:
        if draws.finished("votes-001") is None:
            draw(draws, "votes-001", "mine")
            (Path(state) / f"drawn-{multiprocessing.current_process().pid}").touch()


def test_of_two_runs_at_once_only_one_draws(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    runs = [context.Process(target=_draw_if_missing, args=(str(tmp_path),)) for _ in range(2)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
        assert run.exitcode == 0
    assert len(list(tmp_path.glob("drawn-*"))) == 1


def test_an_error_inside_keeps_its_own_kind(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError, match="endpoint"), opened(tmp_path):
        raise ConnectionError("endpoint")


def test_the_id_of_a_run_says_nothing_of_its_inputs(tmp_path: Path) -> None:
    """Two runs with equal settings and inputs have different ids, in the same state folder and in
    different state folders.
    """
    ids = set()
    for folder in ("one", "other"):
        for _ in range(2):
            with opened(tmp_path / folder, forced=True) as draws:
                ids.add(draws.run)
                assert len(draws.run) == 32
    with opened(tmp_path / "one") as draws:
        assert draws.run in ids
    assert len(ids) == 4
