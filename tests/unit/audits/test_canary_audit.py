"""Tests that audits detect wrong noise, and report no violation for correct noise."""

from __future__ import annotations

import ast
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sugarbush.audits import canary_audit, noise_faults
from sugarbush.audits.canary_audit import MECHANISMS, Size, audit, size_for
from sugarbush.audits.mechanism_runs import CanaryRun, CanaryScores, Coins
from sugarbush.audits.noise_faults import Fault, broken_noise
from sugarbush.privacy import mechanisms
from sugarbush.randomness import public_rng
from sugarbush.tables import marginal_measurer
from sugarbush.training.dpsgd import optimizer
from tests.settings import ROOT

COARSE = [Fault.NO_NOISE, Fault.TENTH, Fault.KNOWN_SEED]
SMALL = Size(canaries=1000, guesses=100)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("fault", COARSE)
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_coarse_faults_are_caught_by_one_run(mechanism: str, fault: Fault, epsilon: float) -> None:
    """For Gaussian scores, lower bounds are 12 standard deviations or more above the claim."""
    found = audit(mechanism, epsilon=epsilon, size=size_for(fault, epsilon=epsilon), fault=fault)
    assert found.violation
    # This is the bound that is valid for any mechanism.
    assert found.lower_epsilon > found.claimed_epsilon
    assert found.claimed_epsilon == pytest.approx(epsilon, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "epsilon", "runs"),
    [("votes", 1.0, 170), *((mechanism, 4.0, 70) for mechanism in MECHANISMS)],
)
def test_a_sensitivity_that_is_too_small_by_root_two_is_caught(
    mechanism: str, epsilon: float, runs: int
) -> None:
    """Each run has 1000 canaries.

    For Gaussian scores, the lower bound on mu exceeds the claimed mu by at least 6 standard
    deviations, so a false alarm has probability below 1e-8.
    """
    size = size_for(Fault.ROOT_TWO, epsilon=epsilon, runs=runs)
    assert audit(mechanism, epsilon=epsilon, size=size, fault=Fault.ROOT_TWO).violation


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_correct_noise_is_not_called_a_violation(mechanism: str, epsilon: float) -> None:
    """In 60,000 simulated audits of Gaussian noise, 0.43% at epsilon 1 gave a false alarm, and less
    at epsilon 4. At this rate, 5 or more alarms in 20 audits have a probability of 2e-8.
    """
    found = [audit(mechanism, epsilon=epsilon, size=SMALL, seed=seed) for seed in range(20)]
    assert sum(one.violation for one in found) <= 4


@pytest.mark.slow
def test_correct_noise_is_not_called_a_violation_by_several_runs() -> None:
    """The test makes 8 audits of 40 runs each.

    In 1,000 simulated audits, each lower bound was 8 standard deviations below its claim on
    average, so a false alarm has probability below 1e-9.
    """
    size = Size(canaries=100, guesses=100, runs=40)
    found = [audit("votes", epsilon=4.0, size=size, seed=seed) for seed in range(8)]
    assert not any(one.violation for one in found)
    assert all(one.lower_mu > 0 for one in found)


@pytest.mark.parametrize("mechanism", ["votes", "kernel scores", "dp-sgd"])
def test_without_noise_every_guess_is_right_and_nothing_is_violated(mechanism: str) -> None:
    found = audit(mechanism, epsilon=math.inf, size=SMALL)
    assert found.outcome.correct == found.outcome.guesses == 100
    assert found.claimed_epsilon == found.claimed_mu == math.inf
    assert not found.violation


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_stronger_claims_bring_higher_bounds(mechanism: str) -> None:
    """The attacker guesses 300 of 1000 canaries. At epsilon 10 about 98% of the guesses are right,
    at epsilon 0.1 about 52%. The bounds are at least 5.5 standard deviations from their limits, so
    a false alarm has probability below 1e-7."""
    size = Size(canaries=1000, guesses=300)
    weak, strong = (audit(mechanism, epsilon=e, size=size) for e in (0.1, 10.0))
    assert weak.lower_epsilon < 0.5
    assert 1.5 < strong.lower_epsilon < strong.claimed_epsilon


def observations(attacks: int, *, mus: tuple[float, ...]) -> CanaryRun:
    """A mechanism that shows nearly all coins. Its runs claim `mus`, one after the other."""
    claims = iter(mus)

    def run(included: Coins, *, epsilon: float, delta: float) -> CanaryScores:
        noise = public_rng(0, "observations").normal(0, 0.3, (attacks, len(included)))
        mu = next(claims)
        return CanaryScores(scores=included + noise, epsilon=10 * mu, mu=mu)

    return run


@pytest.mark.parametrize("attacks", [1, 2, 3])
def test_all_tests_of_an_audit_share_one_error_probability(
    monkeypatch: pytest.MonkeyPatch, attacks: int
) -> None:
    """By the union bound, both lower bounds of all attacks hold with probability `confidence`."""
    errors: list[float] = []
    for name in ("epsilon_lower_bound", "mu_lower_bound"):
        original = getattr(canary_audit, name)

        def watched(*given: Any, confidence: float, original: Any = original, **more: Any) -> float:
            errors.append(1 - confidence)
            found: float = original(*given, confidence=confidence, **more)
            return found

        monkeypatch.setattr(canary_audit, name, watched)
    run = observations(attacks, mus=(1.0,))
    found = audit("votes", epsilon=1.0, size=SMALL, confidence=0.9, run=run)
    assert len(errors) == 2 * attacks
    assert sum(errors) <= 0.1 * (1 + 1e-9)
    assert found.lower_mu > 0


@pytest.mark.parametrize("mus", [(1.0, 9.0, 2.0), (9.0, 1.0, 1.0)])
def test_the_claim_of_an_audit_is_that_of_its_run_with_the_highest_cost(
    mus: tuple[float, ...],
) -> None:
    """Otherwise a bound on the costliest run would look like a violation of a cheaper one."""
    size = Size(canaries=100, guesses=100, runs=3)
    found = audit("votes", epsilon=1.0, size=size, run=observations(1, mus=mus))
    assert (found.claimed_mu, found.claimed_epsilon) == (9.0, 90.0)


@pytest.mark.parametrize("fault", Fault)
def test_the_noise_functions_are_restored_after_a_control(fault: Fault) -> None:
    callers = (mechanisms, "discrete_gaussian"), (marginal_measurer, "discrete_gaussian")
    places = (*callers, (optimizer, "add_gaussian"))
    before = [getattr(module, name) for module, name in places]
    with pytest.raises(ZeroDivisionError), broken_noise(fault):
        assert all(
            getattr(module, name) is not original
            for (module, name), original in zip(places, before, strict=True)
        )
        raise ZeroDivisionError
    assert [getattr(module, name) for module, name in places] == before


def test_a_seeded_fault_draws_the_same_noise_again() -> None:
    drawn = []
    for _ in range(2):
        with broken_noise(Fault.KNOWN_SEED):
            function = mechanisms.discrete_gaussian  # type: ignore[attr-defined]
            drawn.append(function(np.zeros(50, dtype=np.int64), stddev=9.0))
    assert (drawn[0] == drawn[1]).all()
    assert drawn[0].any()


@pytest.mark.slow
def test_only_the_audit_imports_broken_noise() -> None:
    importers = set()
    for folder in ("sugarbush", "tasks", "flows", "research", "benchmarks", "examples"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom):
                    names = [f"{node.module}.{alias.name}" for alias in node.names]
                if any(name.startswith(noise_faults.__name__) for name in names):
                    importers.add(path.relative_to(ROOT))
    assert importers == {Path("sugarbush/audits/canary_audit.py"), Path("sugarbush/cli/audits.py")}
