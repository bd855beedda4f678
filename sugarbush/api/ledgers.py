"""Opens a ledger, and sessions that charge it."""

from __future__ import annotations

from pathlib import Path

from sugarbush.arguments import names_arguments, require_kind
from sugarbush.errors import ParamsError
from sugarbush.methods.interface import Method
from sugarbush.methods.mosaic import Mosaic
from sugarbush.methods.plan import plan_for
from sugarbush.paths import named_state, state_root
from sugarbush.privacy.events import Event
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.remarks import DIFFERENT_SETTING
from sugarbush.privacy.results import digest_of
from sugarbush.privacy.session import PrivacySession
from sugarbush.privacy.settings import PrivacySettings, WhenSpent
from sugarbush.privacy.unit import Unit
from sugarbush.project.weeks import WeeklyPlan, plan_of_weeks


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


@names_arguments
def plan_weeks(
    weeks: int,
    *,
    privacy: PrivacySettings,
    method: Method | None = None,
    user_column: str | None = None,
    state: Path | str | None = None,
) -> WeeklyPlan:
    """Plan the releases of `weeks` weeks under the cap of `privacy.dataset`. Nothing is charged.

    All releases read all records, so their costs add up, also to what is spent already. The result
    has, for a release every week, every second week and so on, the largest epsilon that each
    release may spend. The default `method` is Mosaic(). `privacy.epsilon` has no effect. Raises
    ParamsError.

    >>> import sugarbush as sb, tempfile
    >>> with tempfile.TemporaryDirectory() as state:
    ...     plan = sb.plan_weeks(52, privacy=sb.Privacy(dataset="letters"), state=Path(state))
    >>> print(plan.schedules[0].epsilon, plan.quality[0])
    0.46 0.92 to 0.98 at epsilon 0.3
    """
    require_kind("privacy", privacy, PrivacySettings, 'sb.Privacy(dataset="letters")')
    chosen = Mosaic() if method is None else method
    require_kind("method", chosen, Method, "sb.Mosaic()")
    if not privacy.dataset:
        raise ParamsError(
            'privacy: plan_weeks needs dataset=, such as sb.Privacy(dataset="letters")'
        )

    def events_at(epsilon: float) -> tuple[Event, ...]:
        plan = plan_for(privacy.model_copy(update={"epsilon": epsilon}), [chosen])
        return plan.planned.events

    ledger = ledger_of(privacy, state=state, user_column=user_column)
    return plan_of_weeks(ledger, events_at, weeks=weeks, methods=(chosen.name,))


def _unit(name: str) -> Unit:
    try:
        return Unit(name)
    except ValueError:
        raise ParamsError(f"unit: expected record or user (got {name!r})") from None


def state_folder(state: Path | str | None) -> Path:
    """Return the state folder that the argument `state` names, or the default folder."""
    return state_root(Path()) if state is None else named_state(Path(), state)


def require_privacy(privacy: object) -> PrivacySettings:
    """Return `privacy`, checked again, because `model_copy` checks nothing.

    Raises ParamsError for another type, without the name of a ledger, and for a schedule of runs: a
    call in Python always draws.
    """
    require_kind("privacy", privacy, PrivacySettings, 'sb.Privacy(dataset="letters")')
    assert isinstance(privacy, PrivacySettings)
    if not privacy.dataset:
        raise ParamsError(
            "privacy: sb.Privacy needs dataset=, the name of the ledger. Corpora about the "
            'same people need the same name, for example sb.Privacy(dataset="letters")'
        )
    if privacy.when_spent is WhenSpent.REUSE or privacy.days_between_draws:
        raise ParamsError(
            "privacy: when_spent and days_between_draws are for `sugarbush run`. A call in Python "
            "draws each time, up to the cap. Leave them out"
        )
    return PrivacySettings(**dict(privacy))


def require_unit_of_a_record(privacy: PrivacySettings, *, record: str) -> None:
    """Raise ParamsError if the unit is a user. `record` says what the function protects."""
    if privacy.unit is not Unit.RECORD:
        raise ParamsError(
            f"privacy.unit is user, but this function protects {record}. Set `privacy.unit: record`"
        )


def ledger_of(
    privacy: PrivacySettings, *, state: Path | str | None, user_column: str | None = None
) -> Ledger:
    """Open the ledger of `privacy.dataset`, with all that `privacy` says about it."""
    different = privacy.different_from
    return Ledger(
        state_folder(state),
        dataset=privacy.dataset,
        purpose=privacy.purpose.value,
        unit=privacy.unit,
        cap=privacy.cap,
        delta=privacy.delta,
        user_column=user_column,
        different_from=different,
        assumes={DIFFERENT_SETTING: different} if different else {},
    )


def open_session(
    privacy: PrivacySettings,
    *,
    stage: str,
    state: Path | str | None,
    user_column: str | None = None,
) -> PrivacySession:
    """Open a session on values of the caller. With the unit user, a user has at most
    `privacy.records_per_user` values."""
    return PrivacySession(
        ledger=ledger_of(privacy, state=state, user_column=user_column),
        stage=stage,
        run=digest_of(stage=stage, dataset=privacy.dataset),
        records_per_unit=privacy.records_per_user,
    )
