"""One function that synthesizes the DP table with any engine."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.category_rules import Implication
from sugarbush.privacy.data_types import Private, Released, as_released_array
from sugarbush.privacy.events import GaussianDp
from sugarbush.privacy.session import PrivacySession
from sugarbush.randomness import Rng
from sugarbush.tables.aim import aim
from sugarbush.tables.dp_table import DpTable
from sugarbush.tables.graphical_model import model_megabytes
from sugarbush.tables.marginal_measurer import MarginalMeasurer
from sugarbush.tables.settings import Engine, SynthesizeMetadataSettings
from sugarbush.tables.smartnoise import require_smartnoise, smartnoise
from sugarbush.tables.structural_zeros import (
    TableDomain,
    broken_rows,
    domain_with_rules,
    rows_that_obey,
)
from sugarbush.tables.synthesis import Synthesis, draw_rows, finish_singles, measured_cliques

MAX_CELLS: Final = 10_000  # largest marginal
MAX_MODEL_MB: Final = 4.0  # in our measurements, a larger model was slower and not more accurate

_RULES_MB: Final = MAX_MODEL_MB / 4  # the junction tree of all rules, without measured marginals


def synthesize_table(
    table: Private[tuple[int, ...]],
    schema_domain: Mapping[str, int],
    *,
    mu: float,
    params: SynthesizeMetadataSettings,
    session: PrivacySession,
    rng: Rng,
    rules: Sequence[Implication] = (),
) -> DpTable:
    """Synthesize a table that resembles the private table, over the schema's public domain.

    Guarantee: `mu`-Gaussian DP under adding or removing one unit of at most
    `session.records_per_unit` records. One event is charged before the table is read. The
    measurer's filter keeps every engine within this budget. Every row obeys the public `rules`,
    which change no sensitivity and no charge (`sugarbush.tables.structural_zeros`).
    Shapes: `table` has one row of codes per record, with columns in the order of `schema_domain`.
    Raises ParamsError if the engine is not installed, or BudgetExceededError, before the charge.
    Source: docs/decisions/aim-in-gaussian-dp.md, and the module of each engine.
    """
    if params.engine is Engine.SMARTNOISE:
        require_smartnoise()
    charge = session.charge(GaussianDp(mu=mu))
    domain = restricted(schema_domain, rules)
    measurer = MarginalMeasurer(table, domain, mu=mu, records_per_unit=session.records_per_unit)
    synthesis = run_engine(measurer, params)
    rows = drawn_within(synthesis, domain, rules, rng=rng)
    return DpTable(
        rows=as_released_array(rows, (charge,)),
        record_count=Released(synthesis.record_count, (charge,)),
        measurements=synthesis.measurements,
        merged={name: rare.cells for name, rare in synthesis.rare.items()},
        cliques=measured_cliques(synthesis),
        engine=params.engine.value,
        mu_spent=math.sqrt(measurer.mu_squared_spent),
    )


def restricted(schema_domain: Mapping[str, int], rules: Sequence[Implication]) -> TableDomain:
    """Return the domain of a table with the zeros of the rules that the model can contain."""
    return domain_with_rules(
        schema_domain,
        rules,
        max_cells=MAX_CELLS,
        fits=lambda cliques: model_megabytes(schema_domain, cliques) <= _RULES_MB,
    )


def drawn_within(
    synthesis: Synthesis, domain: TableDomain, rules: Sequence[Implication], *, rng: Rng
) -> NDArray[np.int64]:
    """Draw the rows of a table, which obey all rules."""
    broken = broken_rows(domain, rules) if rules else None
    return rows_that_obey(
        draw_rows(synthesis, rng, broken=broken),
        domain=domain,
        rules=rules,
        draw=lambda count: draw_rows(synthesis, rng, count=count, broken=broken),
    )


def run_engine(
    measurer: MarginalMeasurer,
    params: SynthesizeMetadataSettings,
    *,
    max_cells: int = MAX_CELLS,
    max_model_mb: float = MAX_MODEL_MB,
) -> Synthesis:
    """Run the engine that the settings name.

    A marginal has at most `max_cells` cells, and the graphical model has at most `max_model_mb`.
    """
    if params.engine is Engine.INDEPENDENT:
        return finish_singles(measurer)
    engine = aim if params.engine is Engine.SUGARBUSH else smartnoise
    return engine(measurer, degree=params.degree, max_cells=max_cells, max_model_mb=max_model_mb)
