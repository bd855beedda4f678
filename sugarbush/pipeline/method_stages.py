"""Calls a method's stage, and names every charge of the stage in its result.

The card states the epsilon of the entries that a result names. A method of another package may
forget one, so the charges of the stage's sessions are added here.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sugarbush.errors import ParamsError
from sugarbush.evolution.population import Population
from sugarbush.methods.interface import (
    FinalSet,
    Initial,
    MethodInputs,
    OneStageMethod,
    TrainedMethod,
)
from sugarbush.methods.of_parts import PartsMethod
from sugarbush.privacy.data_types import Released


def first_candidates(method: PartsMethod, inputs: MethodInputs) -> Initial:
    """Return the first candidates, with the ids of every charge of this stage."""
    first = method.initialise(inputs)
    ids = tuple(dict.fromkeys((*first.ledger_ids, *inputs.private.charged)))
    return replace(first, ledger_ids=ids)


def evolved(
    method: OneStageMethod,
    inputs: MethodInputs,
    first: Released[Population] | None,
    *,
    forced: bool,
) -> FinalSet:
    """Return the texts of stage evolve, with the ids of every charge of this stage."""
    final = method.evolve(inputs, first, forced=forced)
    if not isinstance(final, FinalSet):
        raise ParamsError(f"method {method.name}: evolve must return a FinalSet")
    return _with_every_charge(inputs, final, of_run=not isinstance(method, PartsMethod))


def generated(
    method: TrainedMethod, inputs: MethodInputs, model: Released[Path], *, forced: bool
) -> FinalSet:
    """Return the texts of stage generate, with the ids of every charge of this stage."""
    final = method.generate(inputs, model, forced=forced)
    return _with_every_charge(inputs, final, of_run=True)


def _with_every_charge(inputs: MethodInputs, final: FinalSet, *, of_run: bool) -> FinalSet:
    """Return the texts with the ids of all charges of this stage, also those that `final` lacks.

    With `of_run`, every charge of the run of `final` is named, also by an earlier process. The card
    states the epsilon of these ids, so it would state too little without one of them.
    """
    ids = [*final.lineage.ledger_ids, *inputs.private.charged]
    if of_run:
        entries = inputs.private.ledger().entries()
        ids += [entry.id for entry in entries if entry.run == final.run]
    lineage = replace(final.lineage, ledger_ids=tuple(dict.fromkeys(ids)))
    return replace(final, lineage=lineage)
