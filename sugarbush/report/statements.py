"""Writes the sentences of the release card."""

from __future__ import annotations

import math
from functools import lru_cache

from sugarbush.privacy.accounting import adaptive_epsilon, epsilon, rounded_down, rounded_up
from sugarbush.privacy.events import (
    DiscreteGaussian,
    Event,
    GaussianDp,
    NonPrivate,
    PoissonGaussian,
)
from sugarbush.privacy.settings import Purpose
from sugarbush.privacy.unit import Unit
from sugarbush.report.model import Release

COMPOSITION = (
    "Each mechanism has a privacy loss distribution. It is rounded so that epsilon is never too "
    "small. The distributions of all mechanisms are composed (dp_accounting). Where settings "
    "depend on earlier releases (DP-SGD, and the total of a dataset), epsilon is a bound for fully "
    "adaptive choices."
)


def release_epsilon(release: Release) -> float:
    """Return the epsilon of the release's ledger entries, at the release's delta.

    The sampling rate and the number of steps of DP-SGD depend on the DP record count. So with
    DP-SGD, the result is the bound for adaptive choices.
    """
    return _composed(tuple(entry.event for entry in release.entries), release.delta)


@lru_cache(maxsize=16)
def _composed(events: tuple[Event, ...], delta: float) -> float:
    if any(isinstance(event, PoissonGaussian) for event in events):
        return adaptive_epsilon(events, delta=delta)
    return epsilon(events, delta=delta)


def is_private(release: Release) -> bool:
    """Return whether every mechanism is DP."""
    return not any(isinstance(entry.event, NonPrivate) for entry in release.entries)


def heading(release: Release) -> str:
    """Write the first sentence of the card and the page."""
    if not is_private(release):
        return "NOT PRIVATE: a mechanism without differential privacy was used. Do not publish."
    match release.purpose:
        case Purpose.BENCHMARK:
            return (
                "Benchmark: the settings declare the data public, and its ledger is not the "
                "ledger of a release. Not publishable."
            )
        case Purpose.EXAMPLE:
            return (
                "Example: made from an invented corpus that is part of the program. It protects "
                "nobody. The mechanisms and the accounting are the same as in a release."
            )
        case Purpose.RELEASE:
            return "Release: differentially private under the assumptions below."


def statement(release: Release) -> str:
    """Write the guarantee in one sentence."""
    spent = release_epsilon(release)
    if math.isinf(spent):
        return "Nothing is promised: epsilon is infinite."
    if not release.entries and release.other_packages:
        return (
            "No mechanism was charged: epsilon is 0 if the code of other packages used no "
            "private text."
        )
    if not release.entries:
        return "No private text was used: epsilon is 0."
    return (
        f"If {_unit(release)} is added or removed, the probability of any outcome changes by at "
        f"most a factor of {rounded_up(math.exp(spent), 3)}, the exponential of epsilon = "
        f"{rounded_up(spent, 3)}, and "
        f"an additive delta of {short_power(release.delta)}."
    )


def in_other_words(release: Release) -> str | None:
    """Explain what an observer can learn. Return None if there is no guarantee or no ledger
    entry.

    By Bayes' rule, `posterior odds <= e^epsilon * prior odds`, except for delta.
    """
    spent = release_epsilon(release)
    if math.isinf(spent) or not release.entries:
        return None
    return (
        "Example: an observer knows everything else and gives a 50% chance beforehand that "
        f"{_unit(release)} is in the corpus. After this release the observer can give a chance of "
        f"at most {math.ceil(100 / (1 + math.exp(-spent)))}%. This number does not include delta."
    )


def _unit(release: Release) -> str:
    if release.unit is Unit.RECORD:
        return "one record"
    return "one person with all of their records"


def short_power(value: float) -> str:
    """Write 1e-06 as 1e-6."""
    return f"{value:g}".replace("e-0", "e-")


def describe(event: Event) -> str:
    """Describe a mechanism in words.

    Noise is rounded down and cost is rounded up, so that the stated risk is never too small.
    """
    match event:
        case DiscreteGaussian():
            return (
                "integer counts or sums with exact discrete Gaussian noise of standard deviation "
                f"{rounded_down(event.stddev)} on each; one unit changes all of them together by "
                f"at most {event.sensitivity} (L2 sensitivity)"
            )
        case GaussianDp():
            return (
                f"adaptive mechanism, proved to be {rounded_up(event.mu)}-Gaussian-DP as a whole "
                "(metadata table: noisy marginals and private selections under one privacy filter)"
            )
        case PoissonGaussian():
            return (
                "DP-SGD steps: Gaussian noise with noise multiplier "
                f"{rounded_down(event.noise_multiplier)} on Poisson samples with sampling rate "
                f"{rounded_up(event.rate)}"
            )
        case NonPrivate():
            return "no differential privacy"
    return event.kind


def assumed_public(release: Release) -> list[str]:
    """Return the list of things that the guarantee assumes to be public, and does not protect."""
    names = release.schema.names
    items = [
        "The schema: its subject and the names, descriptions and values of its attributes were "
        f"written without reading the private texts ({len(names)} attributes: {', '.join(names)}).",
        "All settings, including delta, and the choice of methods: none was tuned on the private "
        "texts.",
        f"The encoder: {release.encoder}.",
    ]
    if (generator := release.generator) is not None:
        model = f", {generator.model}" if generator.model else ""
        known = (
            f"the texts that it takes its candidates from: {', '.join(generator.sources)}."
            if generator.sources
            else "everything that it was trained on or written from."
        )
        items.append(f"The generator ({generator.provider}{model}) and {known}")
    if release.starts_from is not None:
        items.append(
            f"The model that fine-tuning starts from ({release.starts_from}) and everything that "
            "it was trained on."
        )
    if release.different_from:
        items.append(
            f"The datasets {', '.join(release.different_from)} of the same ledger: the settings "
            "say that nobody in them is in this dataset. Otherwise their epsilons add up."
        )
    if release.donated:
        items.append(
            f"The {release.donated} donated examples. They are NOT protected: the released texts "
            "may repeat them word for word. They are not part of the private records."
        )
    return items


def not_covered(release: Release) -> list[str]:
    """Return the list of things that the guarantee does not cover."""
    items = [
        "One person in several records: the promise is for each record. For k records of one "
        "person, epsilon becomes k*epsilon, and delta becomes k*exp((k-1)*epsilon) times as large."
        if release.unit is Unit.RECORD
        else "Records that mention another person: a record is protected only as a record of its "
        "author. A person with several names in the corpus counts as several persons. Several "
        "people under one name, for example `unknown`, count as one person, and each of them "
        "alone is not protected.",
        "Facts about groups: the release can show what is true for many people. This is intended.",
        "Timing, memory and other side channels of the machine that ran this.",
        "Whether the data changed since the run before: a run on unchanged data is skipped or "
        "restores the same release, and its id shows that. A forced run hides this, but it draws "
        "all results again and is charged again.",
        "Pass or fail, error messages and exact counts on the operator's terminal: they depend on "
        "the private texts and are not part of the release.",
        "The internal report: it is computed from real texts, is not differentially private, and "
        "must not be handed out.",
        "Attacks that failed: they do not limit what a better attack can find. Safety depends on "
        "the ledger alone.",
        "Other releases about the same people, under other dataset names or by other programs.",
        _choice(release.shown_runs),
    ]
    if release.other_packages:
        items.append(
            f"The code of {', '.join(release.other_packages)}: it read the private texts, as a "
            "method or an encoder. The promise covers what was charged. Sugarbush cannot check "
            "that this code charged every use."
        )
    if release.generator is not None and release.generator.endpoint is not None:
        items.append(
            f"The logs of the provider at {release.generator.endpoint}: it saw every prompt and "
            "every answer. Prompts contain released and public text only."
        )
    if release.labels_endpoint is not None:
        items.append(
            f"The logs of the endpoint at {release.labels_endpoint}: EVERY PRIVATE TEXT was sent "
            "to it, to assign attributes. The settings say that it is trusted. Its answers are "
            "private and enter the release only through the noisy metadata."
        )
    return items


def _choice(runs: int) -> str:
    if not runs:
        return (
            "The choice of this run: no figures computed on real texts were shown for any run "
            "so far."
        )
    return (
        "The choice of this run by figures computed on real texts, which are exact. They were "
        f"shown for {runs} {'run' if runs == 1 else 'runs'} on this dataset so far."
    )


def remarks(release: Release) -> list[str]:
    """Return remarks on the exactness of the arithmetic."""
    events = [entry.event for entry in release.entries]
    items = []
    if any(isinstance(event, DiscreteGaussian | GaussianDp) for event in events):
        items.append(
            "Noise on counts is integer noise. It is sampled exactly, with a seed from the "
            "operating system. Floating-point attacks on the noise do not apply."
        )
    if any(a.zero_shot is not None for a in release.schema.attributes) or any(
        isinstance(entry.event, DiscreteGaussian) and entry.stage.startswith("evolve")
        for entry in release.entries
    ):
        items.append(
            "The votes, the scores and the attributes by zero_shot of a record depend only on its "
            "embedding, exactly. The encoder "
            "computes in float32. For the bundled encoder on a CPU with AVX-512, no embedding "
            "depended on the other texts in its batch, in all measurements. On other hardware and "
            "with other encoders, the encoder's own rounding may depend on them (3e-7 for each "
            "number was measured). The accounting does not include this rounding."
        )
    if any(isinstance(event, PoissonGaussian) for event in events):
        items.append(
            "The noise of DP-SGD is sampled in floating point from a generator with a seed from "
            "the operating system. Attacks on its low-order bits are out of scope. Gradients are "
            "computed in float32. Clipping accounts for the rounding of a record's own gradient. "
            "The accounting does not include the last bits of other records' gradients, which "
            "depend on the padding of their batch."
        )
    if events:
        items.append(
            "Epsilon is computed in floating point from privacy loss distributions, which are "
            "rounded towards a larger epsilon."
        )
    return items
