"""The bound on a record's gradient: the proved formula, and no dependence on other records."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from sugarbush.training.dpsgd.record_gradients import Factors, RecordGradients, measure

UNIT = 2.0**-24  # the unit roundoff of float32
BLOCK = 256


def cancelling(positions: int, rows: int, columns: int) -> Factors:
    """Factors of one record with a gradient of 0: every row comes twice, with opposite signs."""
    generator = torch.Generator().manual_seed(positions)
    left = torch.randn(1, positions, rows, generator=generator)
    right = torch.randn(1, positions, columns, generator=generator)
    return Factors(torch.cat([left, left], dim=1), torch.cat([right, -right], dim=1))


def bound_of(factors: Factors, *, usual_length: int) -> Tensor:
    own = RecordGradients(
        records=len(factors.left), usual_length=usual_length, device=torch.device("cpu")
    )
    own.add(factors)
    return measure([own]).bounds


@pytest.mark.parametrize(("positions", "rows", "columns"), [(4, 64, 64), (9, 300, 700), (3, 40, 9)])
def test_a_bound_includes_every_rounding_error_of_its_proof(
    positions: int, rows: int, columns: int
) -> None:
    """docs/decisions/dp-sgd-clipping.md proves the formula. Here the computed norm is at least 0.

    Measured errors are far below the bound, so no measurement shows that a term is missing.
    """
    factors = cancelling(positions, rows, columns)
    size = float((factors.left.double().norm(dim=2) * factors.right.double().norm(dim=2)).sum())
    terms = sum(min(k, BLOCK) + math.ceil(k / BLOCK) for k in (rows, columns)) + 8
    p = 2 * positions
    proved = math.sqrt(terms * UNIT + p**2 * 2.0**-53) * size + 1.01 * (p + 4) * UNIT * size
    found = float(bound_of(factors, usual_length=1)[0])
    assert found >= proved * (1 - 1e-6)


def test_the_scale_of_a_record_does_not_depend_on_the_longest_record_of_its_batch() -> None:
    """If the longest record decided the form of all gradients, it would change their scales."""
    short = cancelling(4, 32, 32)
    long = cancelling(64, 32, 32)
    padding = (0, 0, 0, long.left.shape[1] - short.left.shape[1])
    together = Factors(
        torch.cat([torch.nn.functional.pad(short.left, padding), long.left]),
        torch.cat([torch.nn.functional.pad(short.right, padding), long.right]),
    )
    for usual_length in (4, 1000):
        alone = float(bound_of(short, usual_length=usual_length)[0])
        beside = float(bound_of(together, usual_length=usual_length)[0])
        assert beside == pytest.approx(alone, rel=1e-3, abs=1e-5)


def test_rows_whose_cross_terms_overflow_add_at_most_their_bound() -> None:
    """Rows of opposite signs at the end of float32: rounding makes some cross terms infinite, and
    minus infinity is no small rounding error. In 4,000 trials without the rule, 42 had a bound that
    was too small."""
    largest, root = torch.finfo(torch.float32).max, 2.0**20
    generator = torch.Generator().manual_seed(1)
    records, others, k = 1000, 64, 40

    def unit() -> Tensor:
        rows = torch.randn(records, k, generator=generator)
        return rows / rows.norm(dim=1, keepdim=True)

    def nearly(rows: Tensor) -> Tensor:
        return rows * (1 + 6e-8 * torch.randint(-1, 2, rows.shape, generator=generator))

    scale = math.sqrt(largest) / root
    left, right = (torch.zeros(records, 2 + others, k + others) for _ in range(2))
    a = unit() * root
    b = unit() * scale * (1 - 2e-7 * torch.rand(records, 1, generator=generator))
    left[:, 0, :k], left[:, 1, :k] = a, nearly(a)
    right[:, 0, :k], right[:, 1, :k] = b, -nearly(b)
    for i in range(others):
        left[:, 2 + i, k + i], right[:, 2 + i, k + i] = root, scale * (1 - 1e-6)
    gradients = RecordGradients(records=records, usual_length=1, device=torch.device("cpu"))
    gradients.add(Factors(left, right))
    bounds = measure([gradients]).bounds
    assert not bounds.isfinite().all()
    true = (left.double().transpose(1, 2) @ right.double()).flatten(1).norm(dim=1)
    assert (true[bounds.isfinite()] <= bounds[bounds.isfinite()] * (1 + 1e-3)).all()


def test_a_weight_with_uses_in_two_types_has_the_terms_of_the_less_exact_one() -> None:
    generator = torch.Generator().manual_seed(1)
    wide = [torch.randn(1, 5, 40, generator=generator) for _ in range(2)]
    gradients = RecordGradients(records=1, usual_length=1, device=torch.device("cpu"))
    gradients.add(Factors(*wide))
    gradients.add(Factors(*(factor.bfloat16() for factor in wide)))
    of = measure([gradients])
    assert float(of.bounds - of.norms) >= 2.0**-8 * float(of.sizes)
