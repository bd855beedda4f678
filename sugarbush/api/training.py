"""Fine-tunes a language model with DP-SGD."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from sugarbush import versions
from sugarbush.api.ledgers import ledger_of, require_privacy, require_unit_of_a_record, state_folder
from sugarbush.arguments import names_arguments, require_kind, require_texts
from sugarbush.data.private_store import digest_of_frame
from sugarbush.data.table_digest import keyed_digest
from sugarbush.errors import ParamsError
from sugarbush.paths import atomic_directory
from sugarbush.privacy.data_types import Private
from sugarbush.privacy.fingerprint import make_dataset_fingerprint
from sugarbush.privacy.key import state_key
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.results import open_result_store
from sugarbush.privacy.session import PrivacySession
from sugarbush.privacy.settings import PrivacySettings
from sugarbush.privacy.snapshots import Snapshots
from sugarbush.privacy.spending import spending_of
from sugarbush.training.dpsgd.settings import FineTuning


@dataclass(frozen=True, kw_only=True)
class PrivateModel:
    """A model trained by DP-SGD, with its folder, guarantee and ids of ledger entries.

    `epsilon_of_this_run` is that of this training alone.
    """

    folder: Path
    epsilon_of_this_run: float
    delta: float
    ledger_ids: tuple[str, ...]
    _ledger: Ledger = field(repr=False)

    @property
    def epsilon(self) -> float:
        """The epsilon of all charges on the dataset so far, because this model may be chosen among
        several results. Raises LedgerError if the ledger is not there."""
        return spending_of(self._ledger.snapshot(), self.ledger_ids).epsilon


@names_arguments
def train_dpsgd(
    texts: Sequence[str],
    training: FineTuning,
    *,
    output: str | Path,
    privacy: PrivacySettings,
    state: Path | str | None = None,
) -> PrivateModel:
    """Fine-tune a causal language model on private texts with DP-SGD.

    Guarantee: (`privacy.epsilon`, `privacy.delta`)-DP per text, under add/remove adjacency, by the
    Poisson-subsampled Gaussian mechanism. The cost is charged to the ledger of `privacy.dataset`
    before the first step. The sampling rate and the number of steps are computed from
    `training.records`, a public estimate, never from the true number of texts. `output` is a new
    folder for weights, tokenizer and model_card.json. A second call with equal texts and arguments
    continues from the last checkpoint, or restores the finished weights, without a second charge.
    Other texts or arguments start another run. Raises BudgetExceededError. Raises PrivacyError if
    the model's gradients cannot be clipped exactly per record. Source: Abadi et al. 2016, Algorithm
    1; `docs/decisions/dp-sgd-clipping.md`.
    """
    from sugarbush.training.fine_tune import fine_tune

    require_texts("texts", texts)
    require_kind("training", training, FineTuning, 'sb.FineTuning(model="gpt2", records=400)')
    privacy = require_privacy(privacy)
    require_unit_of_a_record(privacy, record="each text")
    target = Path(output)
    if target.exists() and any(target.iterdir()):
        raise ParamsError(f"{target}: is not empty. Choose another folder")
    folder, private = state_folder(state), tuple(texts)
    ledger, dataset = ledger_of(privacy, state=folder), privacy.dataset
    key = state_key(folder)
    table = digest_of_frame(pd.DataFrame({"text": private}), key=key)
    texts_digest = keyed_digest([table], key=key)
    own_key = {
        "version": versions.TRAINING,
        "texts": Snapshots(folder, dataset).of("train_dpsgd: texts", digest=texts_digest),
        "settings": {**training.model_dump(), "device": None},
        "epsilon": privacy.epsilon,
        "delta": privacy.delta,
    }
    # The store's lock prevents two processes from drawing noise under one charge.
    with (
        open_result_store(
            folder, dataset=dataset, stage="train_dpsgd", key=own_key, forced=False
        ) as store,
        atomic_directory(target) as output_folder,
    ):
        trained = fine_tune(
            Private(private),
            training,
            epsilon=privacy.epsilon,
            session=PrivacySession(
                ledger=ledger,
                stage="train_dpsgd",
                run=store.run,
                dataset_fingerprint=make_dataset_fingerprint(private, key=key),
            ),
            checkpoints=folder / "training" / dataset / store.run,
            counts=store.folder,
            output=output_folder,
        )
    return PrivateModel(
        folder=target,
        epsilon_of_this_run=trained.value,
        delta=privacy.delta,
        ledger_ids=trained.ledger_ids,
        _ledger=ledger,
    )
