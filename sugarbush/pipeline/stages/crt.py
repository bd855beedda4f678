"""Confidentially Redacted Training: an arm that has no DP guarantee and stays private.

Reads    data/private/prepared/train.parquet, data/public/pretrained/, crt.labelled, crt.known
Writes   data/private/arms/crt/      model and tokenizer, synthetic.jsonl
         data/private/crt/           checkpoints, until the run has ended
         reports/internal/confidentiality.json  what is promised, and the policy's measured recall
         data/stamps/crt/
Spends   nothing of the DP budget, since nothing of it is released; confidential training is noted
         in a ledger of its own, where it is never added to a DP epsilon
"""

from __future__ import annotations

import hmac
import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd

from sugarbush.data.private_store import load_records, read_keyed_digest
from sugarbush.data.reading import read_rows
from sugarbush.errors import InvariantError, ParamsError
from sugarbush.paths import Roots, atomic_directory, atomic_file, find_input, make_private
from sugarbush.pipeline import entry_point as stage
from sugarbush.pipeline.budget import open_uncapped_ledger
from sugarbush.pipeline.settings import ProjectSettings
from sugarbush.pipeline.state import state_of
from sugarbush.privacy.accounting import Relation
from sugarbush.privacy.data_types import Private, Released
from sugarbush.privacy.events import ConfidentialTraining
from sugarbush.privacy.key import state_key
from sugarbush.privacy.results import digest_of
from sugarbush.privacy.session import PrivacySession
from sugarbush.training.crt.card import confidentiality_card
from sugarbush.training.crt.confidentiality import agreed_gamma, noise_for
from sugarbush.training.crt.findings import PublicPolicy
from sugarbush.training.crt.labelled import load_labelled
from sugarbush.training.crt.patterns import described
from sugarbush.training.crt.policies import make_policy, make_public_policy
from sugarbush.training.crt.recall import RecallMeasurement, measure
from sugarbush.training.crt.redact import Policy
from sugarbush.training.crt.screening import Screened, screen
from sugarbush.training.crt.sentences import sentences_of
from sugarbush.training.crt.start import digest_of_start, load_start, save
from sugarbush.training.crt.train import PublicPass, train_by_crt
from sugarbush.training.crt.units import text_units
from sugarbush.training.dpsgd.checkpoints import Checkpoints
from sugarbush.training.dpsgd.data import probe_examples
from sugarbush.training.dpsgd.generate import Decoding, generate
from sugarbush.training.dpsgd.sampling import make_schedule
from sugarbush.training.dpsgd.train import Clipping, Decay, Learning, Mechanism, Performance

NAME = "crt"
LEDGER = "confidentiality"
METHOD_VERSION = 3  # to be raised when a trained model comes to mean something else


def run(base: Path, params: ProjectSettings) -> None:
    """Measure the policy, screen, train, write texts, and say what is promised."""
    roots, settings = Roots(base), params.crt
    policy = make_policy(settings.detectors, threshold=settings.threshold)
    conservative = make_public_policy(settings.conservative)
    measured = measured_recall(base, params, policy, conservative)
    gamma = agreed_gamma(settings.gamma, measured=None if measured is None else measured.gamma)
    records = load_records(roots.private / "prepared" / "train.parquet")
    known = known_sentences(base, params)
    screened = screen(
        records.map_batch(lambda r: r.texts),
        policy=policy,
        conservative=conservative,
        known=known,
    )
    delta_2 = 0.0 if measured is None else measured.delta_2
    mechanism = mechanism_of(params, screened, gamma=gamma, delta_2=delta_2)
    digest = digest_of(
        version=METHOD_VERSION,
        patterns=described(),
        start=digest_of_start(roots, settings),
        corpus=read_keyed_digest(roots.stamps / "train_texts.json", left_by="prepare"),
        settings=settings.model_dump(mode="json"),
        known=sorted(known),
        event=mechanism.event.as_dict(),
    )
    checkpoints = Checkpoints(roots.private / NAME / digest)
    trained, tokenizer = _trained(base, params, screened, mechanism, checkpoints, run_id=digest)
    with atomic_directory(roots.private / "arms" / NAME, private=True) as folder:
        save(trained.value, tokenizer, folder)
        _write_texts(trained, tokenizer, params, folder)
    shutil.rmtree(checkpoints.folder, ignore_errors=True)
    _write_card(roots, params, mechanism, gamma=gamma, measured=measured, screened=screened)
    _write_stamp(roots, digest, key=state_key(state_of(params, base)))


def measured_recall(
    base: Path, params: ProjectSettings, policy: Policy, conservative: PublicPolicy | None
) -> RecallMeasurement | None:
    """What the policies miss on the labelled sample, where there is one.

    Raises ParamsError where a conservative policy is asked for and nothing tells what it misses.
    """
    name = params.crt.labelled
    if name is None and conservative is not None:
        raise ParamsError(
            "params.yaml: crt.conservative needs crt.labelled: without labels nobody knows how "
            "many secrets it leaves in the public part. Set it to null: every text is private."
        )
    if name is None:
        return None
    sample = load_labelled(base, name, text_column=params.prepare.text_column)
    return measure(sample, policy, name=Path(name).name, conservative=conservative)


def known_sentences(base: Path, params: ProjectSettings) -> frozenset[str]:
    """The sentences of `crt.known`, which are public word for word."""
    if params.crt.known is None:
        return frozenset()
    column, setting = params.prepare.text_column, "crt.known"
    path = find_input(base, params.crt.known)
    rows = read_rows(path, setting=setting, wanted={column: "prepare.text_column"})
    return sentences_of(str(row.fields[column]) for row in rows)


def mechanism_of(
    params: ProjectSettings, screened: Screened, *, gamma: float, delta_2: float = 0.0
) -> Mechanism:
    """DP-SGD over the private part, with the noise that the Bayesian epsilon asks for.

    Raises ParamsError when the conservative policy takes every text for public, or when its
    delta_2 is not below delta.
    """
    settings = params.crt
    if screened.private_count() == 0:
        raise ParamsError(
            "params.yaml: crt.conservative takes every text for public, so nothing would be "
            "protected. Set it to null, or train on the texts as public ones."
        )
    schedule = make_schedule(
        batch_size=settings.batch_size,
        epochs=settings.epochs,
        unit_count=screened.private_count(),
    )
    draws = schedule.steps + settings.repeatable_steps
    return Mechanism(
        rate=schedule.rate,
        steps=schedule.steps,
        repeatable_steps=settings.repeatable_steps,
        noise_multiplier=noise_for(
            settings.epsilon,
            gamma=gamma,
            delta=params.privacy.delta,
            rate=schedule.rate,
            steps=draws,
            delta_2=delta_2,
        ),
        clip_norm=settings.clip_norm,
        expected_batch_size=schedule.expected_batch_size,
        relation=Relation.REPLACE_ONE,
    )


def _trained(
    base: Path,
    params: ProjectSettings,
    screened: Screened,
    mechanism: Mechanism,
    checkpoints: Checkpoints,
    *,
    run_id: str,
) -> tuple[Released[Any], Any]:
    settings = params.crt
    model, tokenizer = load_start(Roots(base), settings)
    learning = Learning(
        learning_rate=settings.learning_rate,
        decay=Decay.CONSTANT,
        warmup_steps=0,
        weight_decay=0.0,
    )

    def units(texts: Private[str]) -> Private[Any]:
        return texts.map_batch(
            lambda own: text_units(own, tokenizer=tokenizer, max_length=settings.max_length)
        )

    public, private = screened.parts()
    trained = train_by_crt(
        model,
        public=units(public),
        private=units(private),
        mechanism=mechanism,
        learning=learning,
        public_pass=PublicPass(learning=learning, batch_size=16, seed=settings.seed),
        performance=Performance(
            micro_batch_tokens=settings.micro_batch_tokens,
            bfloat16=False,
            clipping=Clipping.BOOK_KEEPING,
            checkpoint_every=settings.checkpoint_every,
        ),
        probe=probe_examples(len(tokenizer), max_length=settings.max_length),
        checkpoints=checkpoints,
        session=PrivacySession(
            ledger=open_uncapped_ledger(params, base, kind=LEDGER), stage=NAME, run=run_id
        ),
    )
    return trained, tokenizer


def _write_texts(
    trained: Released[Any], tokenizer: Any, params: ProjectSettings, folder: Path
) -> None:
    how, settings = params.generate, params.crt
    texts = generate(
        trained,
        Released([""] * settings.texts),
        tokenizer=tokenizer,
        decoding=Decoding.by(how, max_length=settings.max_length),
        seed=how.seed,
        after_end=True,
    ).value.texts
    pd.DataFrame({"text": list(texts)}).to_json(
        folder / "synthetic.jsonl", orient="records", lines=True, force_ascii=False
    )


def _write_card(
    roots: Roots,
    params: ProjectSettings,
    mechanism: Mechanism,
    *,
    gamma: float,
    measured: RecallMeasurement | None,
    screened: Screened,
) -> None:
    event = mechanism.event
    if not isinstance(event, ConfidentialTraining):
        raise InvariantError("CRT trains with noise, under REPLACE_ONE")
    card = confidentiality_card(
        event,
        gamma=gamma,
        delta=params.privacy.delta,
        measured=measured,
        in_theorem=screened.in_theorem,
        all_private=params.crt.conservative is None,
    )
    make_private(roots.internal)
    with atomic_file(roots.internal / "confidentiality.json") as path:
        path.write_text(json.dumps(card, indent=1) + "\n")


def _write_stamp(roots: Roots, digest: str, *, key: bytes) -> None:
    stamp = hmac.new(key, digest.encode(), "sha256").hexdigest()
    with atomic_directory(roots.stamps / NAME) as folder:
        (folder / "stamp.json").write_text(json.dumps({"stamp": stamp}) + "\n")


if __name__ == "__main__":
    stage.main(NAME, run)
