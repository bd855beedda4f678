"""The session through which a mechanism charges its cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sugarbush.errors import ParamsError
from sugarbush.privacy.events import Event, PlannedEvents
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.unit import Unit


@dataclass(frozen=True, kw_only=True)
class PrivacySession:
    """Gives a stage access to the ledger during a run.

    `run` is the random id of the stage's run. If `dataset_fingerprint` is empty, the ledger does
    not compare the corpus with other corpora. A unit has at most `records_per_unit` records. `plan`
    contains all events of the run, if they are fixed before the first charge. Raises ParamsError if
    a unit has several records but the unit of the ledger is a record.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import sugarbush as sb
    >>> from sugarbush.privacy.mechanisms import noisy_histogram
    >>> with tempfile.TemporaryDirectory() as state:
    ...     ledger = sb.open_ledger("tickets", state=Path(state))
    ...     session = PrivacySession(ledger=ledger, stage="count", run="1")
    ...     counts = noisy_histogram(sb.Private([0, 2, 2]), size=4, stddev=5.0, session=session)
    ...     [entry.id for entry in ledger.entries()] == list(counts.ledger_ids)
    True
    """

    ledger: Ledger
    stage: str
    run: str
    dataset_fingerprint: tuple[str, ...] = ()
    records_per_unit: int = 1
    plan: PlannedEvents | None = None

    def __post_init__(self) -> None:
        if self.records_per_unit != 1 and self.ledger.unit is Unit.RECORD:
            raise ParamsError(
                f"a unit with up to {self.records_per_unit} records is a user, but the unit of the "
                "ledger is a record. Open the ledger with unit user and the name of the user column"
            )

    def check(self, events: Iterable[Event]) -> None:
        """Raise the error that charging all `events` would raise. Charge nothing."""
        self.ledger.check(events, plan=self.plan, dataset_fingerprint=self.dataset_fingerprint)

    def charge(self, event: Event) -> str:
        """Charge `event`, wait for the disk, and return the id of the ledger entry.

        Raises the errors of `Ledger.charge`.
        """
        return self.ledger.charge(
            event,
            stage=self.stage,
            run=self.run,
            plan=self.plan,
            records_per_unit=self.records_per_unit,
            dataset_fingerprint=self.dataset_fingerprint,
        )
