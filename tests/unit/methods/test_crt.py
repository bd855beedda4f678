"""The noise of CRT reaches the stated epsilon with everything that the run may spend."""

from __future__ import annotations

import pytest

from sugarbush.methods.crt import CRT
from sugarbush.privacy.data_types import Private
from sugarbush.training.crt.confidentiality import bayesian
from sugarbush.training.crt.patterns import RegexDetector
from sugarbush.training.crt.redact import Policy
from sugarbush.training.crt.screening import screen

DELTA = 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("repeatable_steps", [0, 40])
@pytest.mark.parametrize("delta_2", [0.0, 0.9 * DELTA])
def test_all_steps_and_delta_2_are_within_the_epsilon_of_the_settings(
    repeatable_steps: int, delta_2: float
) -> None:
    texts = [f"letter {i}, signed by Ada" for i in range(60)]
    screened = screen(
        Private(texts), policy=Policy([RegexDetector()]), conservative=None, known=frozenset()
    )
    method = CRT(epsilon=2.0, batch_size=10, epochs=2, repeatable_steps=repeatable_steps)
    mechanism = method.mechanism(screened, gamma=0.1, delta=DELTA, delta_2=delta_2)
    assert mechanism.event.as_dict()["count"] == mechanism.steps + repeatable_steps
    reached = bayesian(mechanism.event, gamma=0.1, delta=DELTA, delta_2=delta_2)
    assert 1.9 < reached.epsilon <= 2.0
    assert reached.delta == pytest.approx(DELTA)
