"""Opens a ledger, and sessions that charge it."""

from __future__ import annotations

from pathlib import Path

from sugarbush.arguments import names_arguments
from sugarbush.errors import ParamsError
from sugarbush.paths import named_state, state_root
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.results import digest_of
from sugarbush.privacy.session import PrivacySession
from sugarbush.privacy.unit import Unit


@names_arguments
def open_ledger(
    dataset: str,
    *,
    cap: float | None = None,
    delta: float = 1e-6,
    purpose: str = "release",
    unit: str = "record",
    user_column: str | None = None,
    state: Path | str | None = None,
) -> Ledger:
    """Open the ledger of a dataset, with the limit `cap`. Opening spends no budget.

    The ledger stores the smallest cap that a charge declared. A larger `cap` does not raise it.
    Without `cap`, the stored cap is valid, or 4 for a new dataset.

    >>> import sugarbush as sb, tempfile
    >>> with tempfile.TemporaryDirectory() as state:
    ...     sb.open_ledger("letters", state=Path(state)).total()
    0.0
    """
    return Ledger(
        state_folder(state),
        dataset=dataset,
        purpose=purpose,
        unit=_unit(unit),
        cap=cap,
        delta=delta,
        user_column=user_column,
    )


def _unit(name: str) -> Unit:
    try:
        return Unit(name)
    except ValueError:
        raise ParamsError(f"unit: expected record or user (got {name!r})") from None


def state_folder(state: Path | str | None) -> Path:
    """Return the state folder that the argument `state` names, or the default folder."""
    return state_root(Path()) if state is None else named_state(Path(), state)


def open_session(
    dataset: str,
    *,
    stage: str,
    cap: float | None,
    delta: float,
    state: Path | str | None,
    user_column: str | None = None,
    records_per_unit: int = 1,
) -> PrivacySession:
    """Open a session on values of the caller. With `user_column`, its unit is a user with at most
    `records_per_unit` values."""
    unit = Unit.RECORD if user_column is None else Unit.USER
    return PrivacySession(
        ledger=open_ledger(
            dataset, cap=cap, delta=delta, unit=unit, user_column=user_column, state=state
        ),
        stage=stage,
        run=digest_of(stage=stage, dataset=dataset),
        records_per_unit=records_per_unit,
    )
