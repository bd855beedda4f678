"""Confidentially Redacted Training (CRT).

Each epoch has one pass of SGD over the public part and one pass of DP-SGD over the private part. A
batch never mixes the two parts. The code of DP-SGD is in `sugarbush.training.dpsgd`. This module is
on the audit list, because it reads the public part.

Guarantee: for a secret in one unit of the private part, `confidentiality.uniform` computes the
confidentiality from `mechanism.event`. The content of the public part is not protected. delta_2
accounts for secrets in the public part. There is no DP epsilon, because the corpus was
deduplicated. Source: Zhao, Li, Wang 2022, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from sugarbush.errors import InvariantError, PrivacyError
from sugarbush.privacy.accounting import Relation
from sugarbush.privacy.data_types import Private, Released
from sugarbush.privacy.session import PrivacySession
from sugarbush.randomness import seed_of
from sugarbush.training.dpsgd.checkpoints import Checkpoints
from sugarbush.training.dpsgd.language_modelling import Example
from sugarbush.training.dpsgd.ordinary import OrdinaryTraining, train_on_public
from sugarbush.training.dpsgd.train import Learning, Training, train

Units = Private[Sequence[Example]]


@dataclass(frozen=True, kw_only=True)
class PublicPass:
    """Settings of the pass over the public part, once per epoch.

    `rehearsal` are examples of public texts. Each pass also trains on `rehearsal`, so that the
    model does not forget words that the policy masks in the corpus.
    """

    learning: Learning
    batch_size: int
    seed: int
    rehearsal: Sequence[Example] = ()


def train_by_crt(
    model: nn.Module,
    *,
    public: Units,
    private: Units,
    training: Training,
    public_pass: PublicPass,
    probe: Sequence[Example],
    checkpoints: Checkpoints,
    session: PrivacySession,
) -> Released[nn.Module]:
    """Train `model` in place by CRT, or continue the run in `checkpoints`.

    `training` is the DP-SGD over the private part, under REPLACE_ONE. Without a public part and
    rehearsal, the training is DP-SGD alone. Raises PrivacyError without a private part, because
    nothing would be protected.
    """
    mechanism = training.mechanism
    if mechanism.relation is not Relation.REPLACE_ONE:
        raise InvariantError(
            "CRT needs the relation REPLACE_ONE, because confidentiality replaces a secret"
        )
    if not private._per_unit:
        raise PrivacyError(
            "the conservative policy calls every text public, so no text would be protected. "
            "Leave the policy out, or make it stricter."
        )
    examples = [*(example for unit in public._per_unit for example in unit), *public_pass.rehearsal]
    epoch_steps = max(1, round(1 / mechanism.rate))

    def pass_over_public(step: int) -> None:
        if examples and step % epoch_steps == 0:
            train_on_public(
                model,
                examples,
                training=OrdinaryTraining(
                    learning=public_pass.learning,
                    epochs=1,
                    batch_size=public_pass.batch_size,
                    micro_batch_tokens=training.performance.micro_batch_tokens,
                    bfloat16=False,
                ),
                seed=seed_of(public_pass.seed, "epoch", step // epoch_steps),
            )

    return train(
        model,
        private,
        training=training,
        probe=probe,
        checkpoints=checkpoints,
        session=session,
        before_step=pass_over_public,
    )
