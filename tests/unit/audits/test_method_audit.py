"""Audits of whole methods: broken noise is caught, correct noise is not called broken."""

from __future__ import annotations

import math
from typing import NoReturn

import numpy as np
import pytest

from sugarbush.audits.canary_audit import AuditFinding, audit
from sugarbush.audits.method_audit import (
    AuditCorpus,
    AuditRecords,
    audit_records,
    method_run,
    method_size,
)
from sugarbush.audits.noise_faults import Fault
from sugarbush.data.schema import Attribute, Schema
from sugarbush.errors import ParamsError
from sugarbush.methods.augpe import AugPE
from sugarbush.methods.crt import CRT
from sugarbush.methods.dpft import DPFT
from sugarbush.methods.interface import Method
from sugarbush.methods.maple import Maple
from sugarbush.methods.mosaic import Mosaic
from sugarbush.run.settings import ProjectSettings, parse_params
from tests.settings import params

SETTINGS = params()
METHODS: dict[str, Method] = {
    "mosaic": Mosaic(),
    "maple": Maple(),
    "augpe": AugPE(rounds=3),  # the charges of three rounds add up as those of ten do
    "nearest few": Maple(votes=5),
    "kernel scores": Maple(scorer="kernel"),
    "dpft": DPFT(),
    "dpft with scores": DPFT(scored_texts=400),
    "crt": CRT(),
}
SCHEMA = Schema(
    subject="letters",
    attributes=tuple(
        Attribute(name=name, column=name, values=tuple("abcd")) for name in ("first", "second")
    ),
)


def records(canaries: int, *, alike: float = 0.0) -> AuditRecords:
    """Invented records, half of them canaries. `alike` is the part of a vector that all share."""
    rng = np.random.default_rng(1)
    n = 2 * canaries
    vectors = (rng.standard_normal((n, 32)) + 5 * alike).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    letters = list("abcdefghijklmnopqrstuvwxyz")
    texts = tuple(" ".join("".join(rng.choice(letters, 6)) for _ in range(12)) for _ in range(n))
    codes = rng.integers(5, size=(n, 2))
    return AuditRecords(texts=texts, codes=codes, vectors=vectors, canaries=canaries)


def unread(_: object) -> NoReturn:
    raise AssertionError("an attack uses the given records only")


def corpus_of(settings: ProjectSettings) -> AuditCorpus:
    return AuditCorpus(
        schema=SCHEMA, privacy=settings.privacy, label="first", real_texts=unread, encode=unread
    )


def audited(
    name: str, *, epsilon: float, fault: Fault | None = None, runs: int = 10, alike: float = 0.0
) -> AuditFinding:
    method = METHODS[name]
    own = records(30 if name in {"dpft", "dpft with scores", "crt"} else 100, alike=alike)
    return audit(
        name,
        epsilon=epsilon,
        size=method_size(method, own, runs=runs, coarse=fault is not None),
        fault=fault,
        run=method_run(method, corpus_of(SETTINGS), own),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mosaic", "maple", "augpe", "nearest few", "kernel scores"])
@pytest.mark.parametrize("fault", [Fault.NO_NOISE, Fault.TENTH, Fault.KNOWN_SEED])
def test_coarse_faults_of_a_whole_method_are_caught(name: str, fault: Fault) -> None:
    """In 15 runs per case, the lower bounds were 8 standard deviations or more above the claim."""
    found = audited(name, epsilon=1.0, fault=fault)
    assert found.lower_epsilon > found.claimed_epsilon
    assert found.claimed_epsilon == pytest.approx(1.0, rel=0.01)


def test_missing_noise_is_caught_among_records_that_are_much_alike() -> None:
    """An attack that expects the claimed noise alone cannot separate them."""
    found = audited("mosaic", epsilon=1.0, fault=Fault.NO_NOISE, alike=1.0)
    assert found.lower_epsilon > found.claimed_epsilon


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "fault"),
    [("dpft", Fault.NO_NOISE), ("dpft with scores", Fault.NO_NOISE), ("crt", Fault.KNOWN_SEED)],
)
def test_coarse_faults_of_training_are_caught(name: str, fault: Fault) -> None:
    found = audited(name, epsilon=1.0, fault=fault)
    assert found.lower_epsilon > found.claimed_epsilon
    assert found.claimed_epsilon == pytest.approx(1.0, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mosaic", "maple", "augpe", "nearest few", "kernel scores"])
def test_a_correct_method_is_attacked_and_not_disproved(name: str) -> None:
    """In 9 measured audits per method, both bounds were 7 standard deviations or more from their
    limits, so a false alarm has probability below 1e-9."""
    found = audited(name, epsilon=4.0, runs=20)
    assert 0.3 < found.lower_epsilon < found.claimed_epsilon and not found.violation


def test_without_noise_the_claim_is_infinite_and_the_bound_is_high() -> None:
    found = audited("maple", epsilon=math.inf)
    assert math.isinf(found.claimed_epsilon) and found.lower_epsilon > 3


def test_records_of_a_release_are_not_audited() -> None:
    settings = parse_params({"prepare": {"file": "a.csv"}, "privacy": {"dataset": "a"}})
    with pytest.raises(ParamsError, match="benchmark"):
        audit_records(corpus_of(settings), METHODS["maple"])
    with pytest.raises(ParamsError, match=r"audit\.enabled"):
        parse_params(
            {"prepare": {"file": "a.csv"}, "privacy": {"dataset": "a"}, "audit": {"enabled": True}}
        )
