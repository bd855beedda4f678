"""Tests of rules in the DP table: every row obeys, and no charge changes."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sugarbush.data.category_rules import CategoryRule, Implication
from sugarbush.privacy.data_types import Private
from sugarbush.randomness import public_rng
from sugarbush.tables.engines import run_engine, synthesize_table
from sugarbush.tables.graphical_model import MarkovRandomField
from sugarbush.tables.marginal_measurer import MarginalMeasurer
from sugarbush.tables.model_fit import NoisyMarginal, fit_model
from sugarbush.tables.settings import SynthesizeMetadataSettings
from sugarbush.tables.structural_zeros import (
    TableDomain,
    Zeros,
    broken_rows,
    domain_with_rules,
    rows_that_obey,
    zeros_of,
)
from sugarbush.tables.synthesis import RareValues, Synthesis, draw_rows
from tests.unit.tables.test_engines import free_ledger, ledger_in, session_of

DOMAINS = {
    "a": ("x", "y", "other"),
    "b": ("p", "q", "r", "other"),
    "c": ("m", "n", "other"),
}
SIZES = {name: len(values) for name, values in DOMAINS.items()}
ENGINES = ("sugarbush", "independent")


def rule(condition: dict[str, Any], then: dict[str, Any]) -> Implication:
    return Implication.of(CategoryRule.of({"if": condition, "then": then}), DOMAINS)


RULES = (
    rule({"a": "x"}, {"b": "p"}),
    rule({"b": "p"}, {"c": {"not": "n"}}),
    rule({"a": "y", "b": ["q", "other"]}, {"c": ["m", "other"]}),  # three attributes
)


def domain_of(rules: tuple[Implication, ...] = RULES, *, max_cells: int = 100) -> TableDomain:
    return domain_with_rules(SIZES, rules, max_cells=max_cells, fits=lambda _: True)


def all_rows() -> NDArray[np.int64]:
    return np.array(list(itertools.product(*map(range, SIZES.values()))))


def broken(codes: NDArray[np.int64], rules: tuple[Implication, ...] = RULES) -> NDArray[np.bool_]:
    columns = dict(zip(DOMAINS, codes.T, strict=True))
    return np.asarray(np.logical_or.reduce([each.broken(columns) for each in rules]))


def records(count: int = 3000, *, obey: bool = True) -> list[tuple[int, ...]]:
    rng = np.random.default_rng(3)
    every = all_rows()
    shares = rng.dirichlet(np.full(len(every), 0.5)) * (~broken(every) if obey else 1.0)
    chosen = rng.choice(len(every), size=count, p=shares / shares.sum())
    return [tuple(map(int, row)) for row in every[chosen]]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("obey", [True, False])
@pytest.mark.parametrize("mu", [0.02, 0.5])
def test_every_row_obeys_the_rules_also_if_records_break_them(
    engine: str, obey: bool, mu: float
) -> None:
    table = synthesize_table(
        Private(records(obey=obey)),
        SIZES,
        mu=mu,
        params=SynthesizeMetadataSettings.model_validate({"engine": engine}),
        session=session_of(free_ledger()),
        rng=public_rng(1, "rows"),
        rules=RULES,
    )
    assert len(table.rows.value) > 100
    assert not broken(table.rows.value).any()
    assert table.mu_spent <= mu


def test_rules_change_no_charge(tmp_path: Path) -> None:
    charges = []
    for name, rules in (("with", RULES), ("without", ())):
        ledger = ledger_in(tmp_path / name)
        table = synthesize_table(
            Private(records()),
            SIZES,
            mu=0.3,
            params=SynthesizeMetadataSettings(),
            session=session_of(ledger),
            rng=public_rng(1, "rows"),
            rules=rules,
        )
        (entry,) = ledger.entries()
        assert entry.id in table.rows.ledger_ids
        charges.append(entry.event)
    assert charges[0] == charges[1]


def test_records_that_break_a_rule_are_measured_as_all_others() -> None:
    """So the sensitivity of a marginal and of a score is that of a table without rules."""
    rows = records(obey=False)
    assert broken(np.array(rows)).any()
    counts = [
        MarginalMeasurer(Private(rows), domain, mu=300.0).measure(("a", "b"), mu=200.0, round=0)
        for domain in (domain_of(), SIZES)
    ]
    assert counts[0].stddev == counts[1].stddev
    np.testing.assert_array_equal(counts[0].counts, counts[1].counts)


def test_a_model_with_zeros_is_the_model_without_them_given_the_rules() -> None:
    rng = np.random.default_rng(2)
    potentials = {("a", "b"): rng.normal(size=(3, 4)), ("b", "c"): rng.normal(size=(4, 3))}
    with_zeros = MarkovRandomField(domain_of(), list(potentials), total=1, potentials=potentials)
    free = np.exp(potentials["a", "b"][:, :, None] + potentials["b", "c"][None])
    free[tuple(all_rows()[broken(all_rows())].T)] = 0.0
    free /= free.sum()
    for names in (("a", "b", "c"), ("a", "c"), ("c", "b"), ("b",)):
        axes = tuple(axis for axis, name in enumerate(DOMAINS) if name not in names)
        kept = [name for name in DOMAINS if name in names]
        expected = np.transpose(free.sum(axis=axes), [kept.index(name) for name in names])
        np.testing.assert_allclose(with_zeros.marginal(names), expected, atol=1e-12)
    assert with_zeros.support is not None


def test_a_fit_ignores_the_noise_in_zeros() -> None:
    """Counts in cells that no row has, also indirectly, do not move the model."""
    exact = MarkovRandomField(domain_of(), [("a", "c")], total=1000)
    counts = exact.marginal(("a", "c"))
    noisy = counts.copy()
    noisy[0, 1] += 400  # a: x needs b: p, which excludes c: n
    models = [
        fit_model(
            domain_of(),
            [NoisyMarginal(attributes=("a", "c"), counts=seen, variance=np.ones((3, 3)))],
            total=1000,
            enough=1e-9,
            calibrations=300,
        )
        for seen in (counts, noisy)
    ]
    for model in models:
        np.testing.assert_allclose(model.marginal(("a", "c")), counts, atol=0.1)


def test_the_cell_of_merged_values_is_a_zero_if_all_of_them_are_forbidden() -> None:
    zeros = Zeros.of(rule({"a": "x"}, {"b": ["p", "q"]}))
    merged = zeros.merged({"b": np.array([0, 1, 1, 2])})
    assert merged.forbidden[0].tolist() == [False, False, True]
    assert zeros.merged({"b": np.array([0, 1, 2, 2])}).forbidden[0].tolist() == [0, 0, 1]
    domain = domain_of().merged({"b": np.array([0, 1, 2, 2])})
    assert domain == {"a": 3, "b": 3, "c": 3} and len(zeros_of(domain)) == len(RULES)


def test_a_rule_that_is_too_large_for_the_model_holds_by_rejection() -> None:
    assert [len(domain_of(max_cells=cells).zeros) for cells in (12, 35, 36)] == [2, 2, 3]
    domain = domain_of(max_cells=1)
    assert not domain.zeros
    model = run_engine(
        MarginalMeasurer(Private(records()), domain, mu=0.5), SynthesizeMetadataSettings()
    )
    rows = draw_rows(model, public_rng(1))
    assert broken(rows).any()
    obeying = rows_that_obey(
        rows, domain=domain, rules=RULES, draw=lambda n: draw_rows(model, public_rng(2), count=n)
    )
    assert len(obeying) == len(rows) and not broken(obeying).any()
    unchanged = ~broken(rows)
    np.testing.assert_array_equal(obeying[unchanged], rows[unchanged])


def test_rows_obey_if_no_drawn_row_does() -> None:
    bad = np.array([[0, 1, 0], [0, 1, 1]])
    obeying = rows_that_obey(bad, domain=SIZES, rules=RULES, draw=lambda n: bad[:n])
    assert obeying.shape == bad.shape and not broken(obeying).any()
    mixed = np.array([[0, 1, 0], [2, 3, 1]])
    obeying = rows_that_obey(mixed, domain=SIZES, rules=RULES, draw=lambda n: bad[:n])
    assert obeying.tolist() == [[2, 3, 1]] * 2


def test_a_rule_about_an_attribute_outside_the_table_is_left_out() -> None:
    sizes = {name: SIZES[name] for name in ("a", "c")}
    domain = domain_with_rules(sizes, RULES, max_cells=100, fits=lambda _: True)
    assert domain == sizes and not domain.zeros


# Each of 40 kinds has one of 8 owners, and one rule says so.
OWNED = {"owner": tuple("abcdefgh"), "kind": tuple(f"k{n}" for n in range(40))}
OWNED_SIZES = {name: len(values) for name, values in OWNED.items()} | dict.fromkeys("wxyz", 4)
OWNERS = tuple(
    Implication.of(
        CategoryRule.of({"if": {"kind": kind}, "then": {"owner": OWNED["owner"][n % 8]}}), OWNED
    )
    for n, kind in enumerate(OWNED["kind"])
)


def owned(count: int) -> list[tuple[int, ...]]:
    """Return records with skewed kinds, their owners, and four independent attributes."""
    rng = np.random.default_rng(4)
    kinds = rng.choice(40, size=count, p=0.9 ** np.arange(40) / sum(0.9 ** np.arange(40)))
    rest = rng.integers(0, 4, (count, 4))
    return [(int(k) % 8, int(k), *map(int, row)) for k, row in zip(kinds, rest, strict=True)]


def test_many_rules_about_one_pair_are_one_dependence() -> None:
    """40 rules do not keep the search from ending where it finds nothing else.

    37 of 40 measured runs ended after the first round. At this rate, fewer than 2 of 10 runs have a
    probability of 1e-9. If each rule counts, none ends.
    """
    domain = domain_with_rules(OWNED_SIZES, OWNERS, max_cells=1000, fits=lambda _: True)
    assert len(domain.zeros) == 40
    last = [
        max(
            measurement.round
            for measurement in run_engine(
                MarginalMeasurer(Private(owned(2500)), domain, mu=0.03),
                SynthesizeMetadataSettings(),
            ).measurements
        )
        for _ in range(10)
    ]
    assert sum(round_ <= 2 for round_ in last) >= 2, last


def test_rare_values_of_a_rule_are_drawn_again_in_their_cells() -> None:
    """The cells of the model stay, so the marginals of merged values do not move."""
    sizes = {name: OWNED_SIZES[name] for name in OWNED}
    domain = domain_with_rules(sizes, OWNERS, max_cells=1000, fits=lambda _: True)
    cells = np.minimum(np.arange(40), 10)  # kinds 10 to 39 are merged
    synthesis = Synthesis(
        model=MarkovRandomField(domain.merged({"kind": cells}), [("owner", "kind")], total=1000),
        measurements=(),
        record_count=1000,
        rare={"kind": RareValues(cells=tuple(cells.tolist()), counts=np.ones(40))},
    )
    breaks = broken_rows(domain, OWNERS)
    raw = draw_rows(synthesis, public_rng(7))
    rows = draw_rows(synthesis, public_rng(7), broken=breaks)
    assert breaks(raw).mean() > 0.1 and not breaks(rows).any()
    np.testing.assert_array_equal(cells[rows[:, 1]], cells[raw[:, 1]])
    np.testing.assert_array_equal(rows[~breaks(raw)], raw[~breaks(raw)])
    np.testing.assert_array_equal(rows[:, 0], raw[:, 0])
