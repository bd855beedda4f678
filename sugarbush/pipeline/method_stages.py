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
    with_every_charge,
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
    return with_every_charge(inputs, final, of_run=not isinstance(method, PartsMethod))


def generated(
    method: TrainedMethod, inputs: MethodInputs, model: Released[Path], *, forced: bool
) -> FinalSet:
    """Return the texts of stage generate, with the ids of every charge of this stage."""
    final = method.generate(inputs, model, forced=forced)
    return with_every_charge(inputs, final, of_run=True)
