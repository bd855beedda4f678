"""The graphical model against mbi's, which computes the same by other means."""

import numpy as np
import pytest

from sugarbush.metadata.pgm import MarkovRandomField
from sugarbush.randomness import public_rng

mbi = pytest.importorskip("mbi", reason="mbi is not installed")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_marginals_are_those_of_mbi():
    """mbi computes in float32, hence the tolerance of a few parts in 10^5 of the total."""
    domain = {"a": 4, "b": 3, "c": 5, "d": 2, "e": 6}
    cliques = [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("e",)]
    rng = public_rng(7, "mbi")
    potentials = {c: rng.normal(0, 1, [domain[x] for x in c]) for c in cliques}
    theirs = mbi.Domain(list(domain), list(domain.values()))
    factors = {c: mbi.Factor(theirs.project(c), v) for c, v in potentials.items()}
    vector = mbi.CliqueVector(theirs, cliques, factors)
    ours = MarkovRandomField(domain, cliques, total=1000.0, potentials=potentials)
    for attributes in [("a", "d"), ("b", "e")]:  # compiled anew for each
        found = mbi.marginal_oracles.variable_elimination(vector, attributes, 1000.0)
        np.testing.assert_allclose(
            ours.marginal(attributes), np.asarray(found.values), atol=0.05, rtol=1e-4
        )
