"""Compares the graphical model with a simple version that computes the whole joint table."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from sugarbush.randomness import public_rng
from sugarbush.tables.graphical_model import (
    MarkovRandomField,
    elimination_cliques,
    junction_tree,
    model_megabytes,
)
from sugarbush.tables.model_fit import NoisyMarginal, fit_model

NAMES = "abcdefgh"


def joint_table(domain, potentials):
    """Compute the probability of every cell of the joint table directly."""
    names = list(domain)
    log = np.zeros(tuple(domain.values()))
    for clique, potential in potentials.items():
        shape = [domain[n] if n in clique else 1 for n in names]
        log = log + potential.reshape(shape)
    p = np.exp(log - log.max())
    return p / p.sum()


def sum_joint(joint, domain, attributes):
    names = list(domain)
    kept = [names.index(a) for a in attributes]
    summed = joint.sum(axis=tuple(i for i in range(len(names)) if i not in kept))
    order = sorted(range(len(kept)), key=lambda i: kept[i])
    return np.transpose(summed, [order.index(i) for i in range(len(kept))])


@st.composite
def fields(draw, spread=2.0):
    """Make a random model with at most 10^5 cells.

    Its cliques are arbitrary: they may form cycles or several components, or be single columns.
    """
    count = draw(st.integers(1, 7))
    sizes = draw(st.lists(st.integers(1, 6), min_size=count, max_size=count))
    domain = dict(zip(NAMES, sizes, strict=False))
    while math.prod(domain.values()) > 100_000:
        domain.popitem()
    cliques = draw(
        st.lists(
            st.sets(st.sampled_from(list(domain)), min_size=1, max_size=3).map(
                lambda c: tuple(sorted(c))
            ),
            min_size=0,
            max_size=8,
        )
    )
    rng = public_rng(draw(st.integers(0, 2**32)), "field")
    potentials = {c: rng.normal(0, spread, [domain[a] for a in c]) for c in dict.fromkeys(cliques)}
    model = MarkovRandomField(domain, cliques, total=100.0, potentials=potentials)
    return domain, potentials, model, rng


@settings(max_examples=80)
@given(fields())
def test_every_marginal_equals_the_one_of_the_whole_table(field):
    domain, potentials, model, rng = field
    joint = joint_table(domain, potentials)
    for size in range(1, min(len(domain), 4) + 1):
        for attributes in itertools.combinations(domain, size):
            order = tuple(rng.permutation(attributes))
            np.testing.assert_allclose(
                model.marginal(order), 100 * sum_joint(joint, domain, order), atol=1e-9
            )


def test_a_model_of_a_hundred_thousand_cells_with_a_cycle_equals_the_whole_table():
    domain = dict(zip("abcde", (10, 10, 10, 10, 10), strict=True))
    cycle = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("a", "e")]
    rng = public_rng(1, "cycle")
    potentials = {c: rng.normal(0, 1, (10, 10)) for c in cycle}
    model = MarkovRandomField(domain, cycle, total=1.0, potentials=potentials)
    joint = joint_table(domain, potentials)
    for attributes in itertools.combinations(domain, 3):
        np.testing.assert_allclose(
            model.marginal(attributes), sum_joint(joint, domain, attributes), atol=1e-12
        )


@settings(max_examples=60)
@given(fields())
def test_a_junction_tree_holds_every_clique_and_runs_through_each_attribute_once(field):
    domain, potentials, _, _ = field
    tree = junction_tree(domain, potentials)
    for clique in potentials:
        assert any(set(clique) <= set(node) for node in tree.nodes)
    assert {a for node in tree.nodes for a in node} == set(domain)
    for node, parent in enumerate(tree.parents):
        assert parent is None or parent < node
    for attribute in domain:
        # The nodes that contain an attribute form a subtree if and only if exactly one of them has
        # a parent that does not contain the attribute.
        tops = [
            i
            for i, node in enumerate(tree.nodes)
            if attribute in node and attribute not in tree.separator(i)
        ]
        assert len(tops) == 1


def test_the_attribute_of_most_values_is_the_last_axis_whatever_the_domains_order():
    """If the last axis were short, sums along rows of length two would take most of the time.

    Callers may use any order of attributes.
    """
    domain = {"wide": 9, "pair": 2, "some": 4}
    potential = public_rng(2, "axes").normal(0, 1, (9, 2, 4))
    whole = {("wide", "pair", "some"): potential}
    model = MarkovRandomField(domain, list(whole), total=1.0, potentials=whole)
    assert model.cliques == (("pair", "some", "wide"),) == model.tree.nodes
    for order in itertools.permutations(domain):
        expected = sum_joint(joint_table(domain, whole), domain, order)
        np.testing.assert_allclose(model.marginal(order), expected)
    assert (model.sample(100, public_rng(2)).max(axis=0) < [9, 2, 4]).all()


def test_a_models_size_is_that_of_its_junction_tree_not_of_its_cliques():
    domain = dict.fromkeys("abcd", 50)
    cycle = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]
    assert model_megabytes(domain, cycle) == pytest.approx(2 * 50**3 * 8 / 2**20)
    assert len(elimination_cliques(domain, cycle)) == 2


@settings(max_examples=25)
@given(fields(spread=1e5))
def test_potentials_of_any_size_neither_underflow_nor_overflow(field):
    domain, _, model, rng = field
    for attributes in itertools.combinations(domain, min(2, len(domain))):
        marginal = model.marginal(attributes)
        assert np.isfinite(marginal).all()
        assert marginal.sum() == pytest.approx(100)
    rows = model.sample(50, rng)
    assert ((rows >= 0) & (rows < list(domain.values()))).all()


@settings(max_examples=15)
@given(fields())
def test_samples_follow_every_two_way_marginal(field):
    """The test samples 20,000 rows.

    The variance of the count of a cell is at most the variance of a binomial count. So a deviation
    of more than six standard deviations plus one has a probability below 10^-8 per cell.
    """
    domain, potentials, model, rng = field
    joint, rows = joint_table(domain, potentials), 20_000
    sample = model.sample(rows, rng)
    names = list(domain)
    for attributes in itertools.combinations(domain, min(2, len(domain))):
        shape = [domain[a] for a in attributes]
        flat = np.ravel_multi_index([sample[:, names.index(a)] for a in attributes], shape)
        counts = np.bincount(flat, minlength=math.prod(shape)).reshape(shape)
        expected = sum_joint(joint, domain, attributes)
        bound = 6 * np.sqrt(rows * expected * np.maximum(1 - expected, 0)) + 6
        assert (np.abs(counts - rows * expected) <= bound).all()


def test_one_way_counts_of_a_sample_are_as_expected_but_for_the_rounding():
    domain = {"a": 7}
    model = MarkovRandomField(
        domain, [("a",)], total=1.0, potentials={("a",): np.linspace(0, 2, 7)}
    )
    counts = np.bincount(model.sample(1000, public_rng(1, "s"))[:, 0], minlength=7)
    assert np.abs(counts - 1000 * model.marginal(("a",))).max() <= 2


def test_a_sample_follows_pairs_without_a_clique_better_than_independent_draws():
    """For independent draws, the sum of (count - expected)^2 / expected is about the number of
    cells. Rows are spread over the values of earlier columns, so the sum is far smaller."""
    domain = {"a": 8, "b": 9, "c": 5}
    rng = public_rng(6, "strata")
    potentials = {(name,): rng.normal(0, 0.5, size) for name, size in domain.items()}
    model = MarkovRandomField(domain, list(potentials), total=1.0, potentials=potentials)
    rows = model.sample(5000, rng)
    for pair in itertools.combinations(domain, 2):
        shape = [domain[name] for name in pair]
        cells = np.ravel_multi_index([rows[:, "abc".index(name)] for name in pair], shape)
        counts = np.bincount(cells, minlength=math.prod(shape))
        expected = 5000 * model.marginal(pair).ravel()
        assert ((counts - expected) ** 2 / expected).sum() < 0.25 * len(counts)


@settings(max_examples=40)
@given(fields())
def test_the_derivative_of_the_marginals_is_the_limit_of_differences(field):
    *_, model, rng = field
    here = model.calibration.potentials
    direction = rng.normal(0, 1, here.size)
    derivative = model.derivative(direction)
    model.calibrate(here + 1e-5 * direction)
    above = model.clique_marginals()
    model.calibrate(here - 1e-5 * direction)
    np.testing.assert_allclose(derivative, (above - model.clique_marginals()) / 2e-5, atol=1e-5)


def test_exact_marginals_are_recovered_and_what_they_imply_about_the_rest():
    domain, potentials, joint = _chain()
    observations = [
        NoisyMarginal(
            attributes=c, counts=1000 * sum_joint(joint, domain, c), variance=np.ones((4, 4))
        )
        for c in potentials
    ]
    model = fit_model(domain, observations, total=1000.0, enough=0, calibrations=2000)
    for attributes in [*potentials, ("a", "c"), ("a", "d"), ("d", "a")]:
        np.testing.assert_allclose(
            model.marginal(attributes), 1000 * sum_joint(joint, domain, attributes), atol=0.5
        )


def test_an_estimate_is_the_least_squares_distribution():
    """The observations are noisy, inconsistent and of unequal variance.

    The result is compared with the result of a general optimiser.
    """
    domain = {"a": 3, "b": 2, "c": 2}
    rng = public_rng(5, "noisy")
    observations = [
        NoisyMarginal(
            attributes=c,
            counts=rng.normal(8, 6, [domain[x] for x in c]),
            variance=rng.uniform(0.5, 4, [domain[x] for x in c]),
        )
        for c in [("a", "b"), ("b", "c"), ("c", "a"), ("a",), ("a", "b")]
    ]

    def loss_of(marginal):
        return sum(
            float(((marginal(o.attributes) - o.counts) ** 2 / o.variance).sum()) / 2
            for o in observations
        )

    def loss_at(logits):
        p = np.exp(logits - logits.max()).reshape(3, 2, 2)
        p *= 48 / p.sum()
        return loss_of(lambda attributes: sum_joint(p, domain, attributes))

    best = min(
        minimize(loss_at, rng.normal(0, 1, 12), method="BFGS", options={"maxiter": 2000}).fun
        for _ in range(3)
    )
    model = fit_model(domain, observations, total=48.0, enough=0, calibrations=2000)
    assert loss_of(model.marginal) == pytest.approx(best, rel=2e-3)


@pytest.mark.parametrize("with_start", [False, True])
def test_one_heavy_value_among_thousands_does_not_draw_everything(with_start):
    """From a uniform start, the linear approximation of the first step is off by large factors."""
    rng = public_rng(4, "heavy")
    counts = np.where(np.arange(6000) == 17, 3000.0, 0.3) + rng.normal(0, 1.4, 6000)
    seen = NoisyMarginal(attributes=("town",), counts=counts, variance=np.full(6000, 2.0))
    start = MarkovRandomField({"town": 6000}, [("town",)], total=5000.0) if with_start else None
    model = fit_model(
        {"town": 6000}, [seen], total=5000.0, enough=0.25, calibrations=100, start=start
    )
    assert model.marginal(("town",))[17] == pytest.approx(3000, rel=0.05)


def test_an_estimation_starts_from_the_potentials_of_its_start():
    domain, potentials, _ = _chain()
    first = MarkovRandomField(domain, list(potentials), total=1.0, potentials=potentials)
    later = MarkovRandomField(
        domain, [*potentials, ("a", "d")], total=5.0, potentials=first.potentials
    )
    for attributes in itertools.combinations(domain, 2):
        np.testing.assert_allclose(
            later.marginal(attributes), 5 * first.marginal(attributes), atol=1e-12
        )


def _chain():
    domain = dict.fromkeys("abcd", 4)
    rng = public_rng(3, "chain")
    potentials = {c: rng.normal(0, 1, (4, 4)) for c in [("a", "b"), ("b", "c"), ("c", "d")]}
    return domain, potentials, joint_table(domain, potentials)
