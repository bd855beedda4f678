"""What a stage, a command and the API receive: the settings of a run, its inputs, plan and ledger.

A `Project` has few members on purpose. What only some features need is a function of the project:
`run.records` opens the private records, `run.ledgers` the stores of results, and `run.tools` the
generator, the encoder and the inputs of a method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from sugarbush.data.schema import Schema
from sugarbush.errors import ParamsError
from sugarbush.evaluation.first_look import FirstLook
from sugarbush.paths import Roots, state_root
from sugarbush.privacy.budget import BudgetPlan
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.reservation import Reservation
from sugarbush.privacy.settings import Purpose
from sugarbush.progress import working
from sugarbush.run.inputs import RunInputs
from sugarbush.run.settings import ProjectSettings, dataset_name


@dataclass(kw_only=True)
class Gate:
    """What happens before a charge.

    `rehearse` judges the generator's first texts, once in this process, and raises an error if they
    are not good enough. `plan` computes the budget plan. `reservation` holds the budget of a run in
    one process.
    """

    rehearse: Callable[[Project], object]
    plan: Callable[[Project], BudgetPlan]
    reservation: Reservation | None = None
    _rehearsed: bool = field(default=False, init=False)

    def before_charge(self, project: Project) -> None:
        """Judge the generator's first texts before the first charge of this process.

        Every charge comes here, also that of a stage whose earlier stages are up to date.
        """
        if not self._rehearsed:
            self.rehearse(project)
            self._rehearsed = True


class Project:
    """The project in `base`. Reading a wrong file raises ParamsError, SchemaError or InputError.

    `pipeline.opening` opens a project, with the rehearsal and the plan of a run.
    """

    def __init__(
        self,
        base: Path,
        settings: ProjectSettings,
        *,
        inputs: RunInputs,
        gate: Gate,
        state: Path | None = None,
    ) -> None:
        self.base = base
        self.settings = settings
        self.inputs = inputs
        self.gate = gate
        self.roots = Roots(base)
        self._state = state

    def with_settings(self, settings: ProjectSettings, *, schema: Schema | None = None) -> Project:
        """Return a project in the same folder with other settings, and the same state folder."""
        return Project(
            self.base,
            settings,
            inputs=self.inputs.with_settings(settings, schema),
            gate=Gate(rehearse=self.gate.rehearse, plan=self.gate.plan),
            state=self.state,
        )

    @property
    def schema(self) -> Schema:
        """The schema of the records."""
        return self.inputs.schema

    @property
    def look(self) -> FirstLook | None:
        """The first look of the run that stage look released, or None."""
        return self.inputs.look

    @cached_property
    def state(self) -> Path:
        """The state folder, with ledgers, key, finished results and received answers."""
        if self._state is not None:
            return self._state
        return state_root(self.base, example=self.settings.privacy.purpose is Purpose.EXAMPLE)

    @property
    def dataset(self) -> str:
        """The name of the ledger. Raises ParamsError if the settings contain no name."""
        if not self.settings.privacy.dataset:
            suggested = dataset_name(self.settings.prepare.file)
            raise ParamsError(
                "params.yaml: privacy.dataset is not set. This setting names the ledger. Files "
                "about the same people must have the same name, so that they share one budget. For "
                f"example, set `dataset: {suggested}`"
            )
        return self.settings.privacy.dataset

    @cached_property
    def plan(self) -> BudgetPlan:
        """The budget share of every mechanism of a run, computed from the settings alone.

        The run and the profiles of the dataset together are within privacy.epsilon.
        """
        with working("planning the budget"):
            return self.gate.plan(self)

    def ledger(self, *, rehearse: bool = True) -> Ledger:
        """Return the ledger of `privacy.dataset`. A benchmark and a release have separate
        ledgers. `rehearse` is false for a charge that pays for no texts."""
        privacy = self.settings.privacy
        return Ledger(
            self.state,
            dataset=self.dataset,
            unit=privacy.unit,
            delta=privacy.delta,
            purpose=privacy.purpose.value,
            cap=privacy.cap,
            paid_for=self.inputs.paid_for,
            different_from=privacy.different_from,
            user_column=self.settings.prepare.user_column,
            reservation=self.gate.reservation,
            assumes=self.settings.declared,
            before_charge=(lambda: self.gate.before_charge(self)) if rehearse else lambda: None,
        )
