"""Compares our graphical model with the graphical model of mbi, an independent implementation."""

import importlib

import numpy as np
import pytest

from sugarbush.randomness import public_rng
from sugarbush.tables.graphical_model import MarkovRandomField
from sugarbush.tables.model_fit import NoisyMarginal, fit_model

pytestmark = pytest.mark.xdist_group("jax")  # one worker loads it


@pytest.fixture
def mbi():
    """Imported when a test runs: jax is slow to load."""
    return importlib.import_module("mbi")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_marginals_are_those_of_mbi(mbi):
    """mbi computes in float32, so the tolerance is a few parts in 10^5 of the total."""
    domain = {"a": 4, "b": 3, "c": 5, "d": 2, "e": 6}
    cliques = [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("e",)]
    rng = public_rng(7, "mbi")
    potentials = {c: rng.normal(0, 1, [domain[x] for x in c]) for c in cliques}
    theirs = mbi.Domain(list(domain), list(domain.values()))
    factors = {c: mbi.Factor(theirs.project(c), v) for c, v in potentials.items()}
    vector = mbi.CliqueVector(theirs, cliques, factors)
    ours = MarkovRandomField(domain, cliques, total=1000.0, potentials=potentials)
    attributes = ("a", "d", "e")  # only one case, because mbi compiles a program for each
    found = mbi.marginal_oracles.variable_elimination(vector, attributes, 1000.0)
    np.testing.assert_allclose(
        ours.marginal(attributes), np.asarray(found.values), atol=0.05, rtol=1e-4
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_an_estimate_is_that_of_mbi(mbi):
    """The marginals are noisy and inconsistent, and their cliques form a cycle. mbi uses mirror
    descent.

    Our fit must be at least as good. The fit of mbi, in float32, stops slightly before the optimum.
    """
    domain = {"a": 4, "b": 3, "c": 5, "d": 2}
    cliques = [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("a",)]
    rng, stddev = public_rng(8, "mbi"), 3.0
    truth = 1000 * rng.dirichlet(np.full(120, 0.3)).reshape(4, 3, 5, 2)
    noisy = {}
    for clique in cliques:
        others = tuple(place for place, name in enumerate(domain) if name not in clique)
        exact = truth.sum(axis=others)
        noisy[clique] = exact + rng.normal(0, stddev, exact.shape)
    ours = fit_model(
        domain,
        [
            NoisyMarginal(attributes=c, counts=y, variance=np.full(y.shape, stddev**2))
            for c, y in noisy.items()
        ],
        total=1000.0,
        enough=0,
        calibrations=4000,
    )
    theirs = mbi.estimation.MirrorDescent().estimate(
        mbi.Domain(list(domain), list(domain.values())),
        [mbi.LinearMeasurement(y.ravel(), c, stddev) for c, y in noisy.items()],
        known_total=1000.0,
        iters=3000,
    )

    def theirs_of(attributes):
        return np.asarray(theirs.project(attributes).values, dtype=np.float64)

    def loss(marginal):
        return sum(((marginal(c) - y) ** 2).sum() for c, y in noisy.items())

    assert loss(ours.marginal) <= loss(theirs_of) * (1 + 1e-6)
    for attributes in [("a", "b"), ("c", "d"), ("a", "d"), ("b", "d")]:
        np.testing.assert_allclose(
            ours.marginal(attributes), theirs_of(attributes), atol=stddev / 10
        )
