"""Writes the sentences of the release card."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from sugarbush.privacy.accounting import rounded_down, rounded_up
from sugarbush.privacy.events import (
    DiscreteGaussian,
    DpSgd,
    DpSgdBound,
    DpSgdGaussianBound,
    Event,
    GaussianDp,
    NonPrivate,
    PoissonGaussian,
    ThresholdedGaussian,
)
from sugarbush.privacy.ledger import PROFILE
from sugarbush.privacy.remarks import DPSGD_NOISE, EMBEDDINGS, INTEGER_NOISE, METADATA_TABLE
from sugarbush.privacy.settings import Purpose
from sugarbush.privacy.spending import Spending
from sugarbush.privacy.unit import Unit
from sugarbush.report.model import ReleaseFacts

COMPOSITION = (
    "The mechanisms of a run are composed. Mechanisms that are Gaussian DP compose by a formula. "
    "DP-SGD and integer noise with a small standard deviation have privacy loss distributions "
    "(dp_accounting). They are rounded so that epsilon is never too small. If the DP record count "
    "decides the steps of DP-SGD, the distribution covers every count. For several runs, epsilon "
    "is a bound for fully adaptive choices, because the settings of a run may depend on an earlier "
    "release."
)


def release_epsilon(release: ReleaseFacts) -> float:
    """Return the epsilon to count: that of all charges on the dataset (`privacy.spending`)."""
    return release.spending.epsilon


def is_private(release: ReleaseFacts) -> bool:
    """Return whether every mechanism is DP."""
    every = (*release.entries, *release.spending.others)
    return not any(isinstance(entry.event, NonPrivate) for entry in every)


def is_accepted(release: ReleaseFacts) -> bool:
    """Return whether the public figures meet the rule `release.accept_if`, if there is one."""
    return release.quality is None or release.quality.accepted


def heading(release: ReleaseFacts) -> str:
    """Write the first sentence of the card and the page."""
    if not is_private(release):
        return "NOT PRIVATE: a mechanism without differential privacy was used. Do not publish."
    if release.quality is not None and not release.quality.accepted:
        unmet = [f"{method}: {each}" for method, of in release.quality.unmet.items() for each in of]
        return (
            f"REFUSED by release.accept_if: {'; '.join(unmet)}. Do not publish. Its budget is "
            f"spent: {release.spending.line()}."
        )
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


def statement(release: ReleaseFacts) -> str:
    """Write the guarantee in one sentence."""
    spent, several = release_epsilon(release), bool(release.spending.others)
    if math.isinf(spent):
        return "Nothing is promised: epsilon is infinite."
    if not release.entries and not several and release.other_packages:
        return (
            "No mechanism was charged: epsilon is 0 if the code of other packages used no "
            "private text."
        )
    if not release.entries and not several:
        return "No private text was used: epsilon is 0."
    bound = (
        f"If {_unit(release.unit)} is added or removed, the probability of any outcome changes by "
        f"at most a factor of {rounded_up(math.exp(spent), 3)}, the exponential of epsilon = "
        f"{rounded_up(spent, 3)}, and "
        f"an additive delta of {rounded_up(release.delta)}."
    )
    return f"{bound} {_sentence(release.spending.line())}" if several else bound


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


_KINDS = {
    "profile": "a DP profile",
    "synthesize_metadata": "DP counts or a DP table",
    "initialise": "first texts",
    "evolve": "votes or scores",
    "finetune": "training",
    "generate": "scores of generated texts",
    "measure": "public figures",
    "dp_table": "a table of sb.dp_table",
    "private_histogram": "a histogram of sb.private_histogram",
}


_ON_EMBEDDINGS = {"evolve", "generate", "measure"}  # stages that compare embeddings


def other_charges(spending: Spending) -> tuple[str, ...]:
    """Name the charges of the dataset that are not of this run, by kind."""
    found = []
    for when, entries in (("before", spending.before), ("after", spending.after)):
        counts = Counter(_kind(entry.stage) for entry in entries)
        if counts:
            named = ", ".join(f"{kind} ({count})" for kind, count in counts.items())
            found.append(f"Charged {when} this run: {named}.")
    if found:
        found.append(
            "They are charges of other runs, of runs that stopped, or of results that were deleted "
            "and drawn again."
        )
    return tuple(found)


def _kind(stage: str) -> str:
    name, _, method = stage.partition("@")
    kind = _KINDS.get(name, f"stage {name}")
    return f"{kind} of {method}" if method else kind


def in_other_words(release: ReleaseFacts) -> str | None:
    """Explain what an observer can learn. Return None if there is no guarantee or no ledger
    entry.

    By Bayes' rule, `posterior odds <= e^epsilon * prior odds`, except for delta.
    """
    spent = release_epsilon(release)
    if math.isinf(spent) or not (release.entries or release.spending.others):
        return None
    return belief(spent, unit=release.unit)


def belief(epsilon: float, *, unit: Unit) -> str:
    """Say what a finite epsilon means for an observer, by Bayes' rule and without delta.

    >>> belief(1.0, unit=Unit.RECORD).rpartition("After")[2][:63]
    ' this release the observer can give a chance of at most 74%. Th'
    """
    return (
        "Example: an observer knows everything else and gives a 50% chance beforehand that "
        f"{_unit(unit)} is in the corpus. After this release the observer can give a chance of "
        f"at most {highest_chance(epsilon)}%. This number does not include delta."
    )


def highest_chance(epsilon: float) -> int:
    """Return the percentage in `belief`, rounded up."""
    return math.ceil(100 / (1 + math.exp(-epsilon)))


def _unit(unit: Unit) -> str:
    if unit is Unit.RECORD:
        return "one record"
    return "one person with all of their records"


def describe(event: Event) -> str:
    """Describe a mechanism in words.

    Noise is rounded down and cost is rounded up, so that the stated risk is never too small.
    """
    match event:
        case DiscreteGaussian():
            draws, them = ("", "all of them")
            if event.count > 1:
                draws, them = f"{event.count} planned draws of ", "the numbers of one draw"
            return (
                f"{draws}integer counts or sums with exact discrete Gaussian noise of standard "
                f"deviation {rounded_down(event.stddev)} on each; one unit changes {them} together "
                f"by at most {event.sensitivity} (L2 sensitivity)"
            )
        case ThresholdedGaussian():
            return (
                "counts of values that nobody listed before, with exact discrete Gaussian noise of "
                f"standard deviation {rounded_down(event.stddev)} on each; one unit has at most "
                f"{event.count} of these values. Only counts above a threshold are released: a "
                f"value that one unit alone has, with probability {rounded_up(event.delta)} at most"
            )
        case GaussianDp():
            return f"adaptive mechanism, proved to be {rounded_up(event.mu)}-Gaussian-DP as a whole"
        case PoissonGaussian() | DpSgdBound() | DpSgdGaussianBound():
            return _describe_training(event)
        case NonPrivate():
            return "no differential privacy"
    return event.kind


def _describe_training(event: DpSgd) -> str:
    if isinstance(event, PoissonGaussian):
        return (
            "DP-SGD steps: Gaussian noise with noise multiplier "
            f"{rounded_down(event.noise_multiplier)} on Poisson samples with sampling rate "
            f"{rounded_up(event.rate)}"
        )
    if isinstance(event, DpSgdGaussianBound):
        return (
            "DP-SGD steps on Poisson samples. Earlier results may decide their rate, number and "
            "noise. Whatever they are, the privacy profile is at most that of "
            f"{rounded_up(event.mu)}-Gaussian-DP plus {rounded_up(event.delta)}"
        )
    return (
        "DP-SGD steps on Poisson samples. The DP record count decides their rate, number "
        "and noise. For every count, the privacy profile is at most the larger of two: "
        f"{rounded_up(event.mu)}-Gaussian-DP, and {event.steps} steps with noise "
        f"multiplier {rounded_down(event.noise_multiplier)} and sampling rate "
        f"{rounded_up(event.rate)}"
    )


def in_plain_words(event: Event) -> str:
    """Describe a mechanism for readers who do not know differential privacy."""
    match event:
        case DiscreteGaussian():
            return (
                "Every record had a small and limited influence on a set of sums. Random noise was "
                "added to each sum before anybody could see it."
            )
        case ThresholdedGaussian():
            return (
                "The values and words that very many records have were listed, with noisy counts. "
                "Values of few records stay unknown."
            )
        case GaussianDp():
            return (
                "A series of counts over the records was taken, each with random noise. The whole "
                "series counts as one charge."
            )
        case PoissonGaussian() | DpSgdBound() | DpSgdGaussianBound():
            return (
                "A language model was trained on random samples of the records. The influence of "
                "each record on a training step was limited, and random noise was added to each "
                "step."
            )
        case NonPrivate():
            return "The records were used without noise, so nothing protects them."
    return "The records were used by the mechanism that the exact list below names."


_PURPOSES = {
    "profile": "Describe the records, so that a schema can be written",
    "synthesize_metadata": "Estimate how often each value occurs",
    "dp_table": "Estimate how often each value occurs",
    "evolve": "Choose the texts that resemble the records",
    "finetune": "Train the model that writes the texts",
    "generate": "Choose the texts that resemble the records",
    "measure": "Measure how good the texts are",
}


def purpose_of_stage(stage: str) -> str:
    """Say why a stage used the records. An unknown stage keeps its name.

    >>> purpose_of_stage("evolve@mosaic")
    'Choose the texts that resemble the records'
    """
    return _PURPOSES.get(stage.partition("@")[0], stage)


def assumed_public(release: ReleaseFacts) -> tuple[str, ...]:
    """Return the list of things that the guarantee assumes to be public, and does not protect."""
    names = release.schema.names
    listed = f"({len(names)} attributes: {', '.join(names)})"
    items = [
        "The schema: its subject and the names, descriptions and values of its attributes were "
        f"written without reading the private texts {listed}."
        if not any(entry.stage == PROFILE for entry in release.entries)
        else "What a person wrote into the schema beside the DP profile, without reading the "
        f"private texts {listed}. The values, the form of the texts and the lengths in the "
        "settings may come from the profile. Its charges are part of this guarantee.",
        "All settings, including delta, and the choice of methods: none was tuned on the private "
        "texts.",
        f"The encoder: {release.encoder}.",
    ]
    if (shape := release.schema.shape) is not None:
        items.append(f"The form of a record, with all names in it: {shape.description}.")
    if (generator := release.generator) is not None:
        model = f", {generator.model}" if generator.model else ""
        sources = (
            f"the texts that it takes its candidates from: {', '.join(generator.sources)}."
            if generator.sources
            else "everything that it was trained on or written from."
        )
        items.append(f"The generator ({generator.provider}{model}) and {sources}")
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
    return tuple(items)


def not_covered(release: ReleaseFacts) -> tuple[str, ...]:
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
        "Other releases about the same people, under other dataset names, with another state "
        "folder or by other programs.",
        f"A choice by exact figures on real texts, or by reading them. {exact_figures(release)}",
    ]
    if release.other_packages:
        items.append(
            f"The code of {', '.join(release.other_packages)}: it read the private texts, as a "
            "method, an encoder, a detector or a file format. The promise covers what was charged. "
            "Sugarbush cannot check that this code charged every use."
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
    return tuple(items)


def exact_figures(release: ReleaseFacts) -> str:
    """Say which exact figures on real texts were shown, and that others cannot be known."""
    shown = ", ".join(f"{what} ({count})" for what, count in release.shown.items())
    known = (
        f"Sugarbush showed exact figures on real texts for this dataset: {shown}."
        if shown
        else "Sugarbush showed no exact figures of quality on real texts for this dataset."
    )
    return (
        f"{known} It cannot know figures that other code computed, such as sb.evaluate of a list "
        "of texts, or who read the real texts."
    )


def _of_other_charges(spending: Spending) -> Iterator[str]:
    """Yield the remarks on the mechanisms of other runs, because the epsilon counts them."""
    for entry in spending.others:
        match entry.event:
            case GaussianDp():
                yield METADATA_TABLE
            case DiscreteGaussian() | ThresholdedGaussian():
                yield INTEGER_NOISE
            case PoissonGaussian() | DpSgdBound():
                yield DPSGD_NOISE
        if entry.stage.partition("@")[0] in _ON_EMBEDDINGS:
            yield EMBEDDINGS


def remarks(release: ReleaseFacts) -> tuple[str, ...]:
    """Return the remarks that mechanisms and methods declare, on the accounting, and on repairs."""
    items = list(dict.fromkeys((*release.remarks, *_of_other_charges(release.spending))))
    if release.entries or release.spending.others:
        items.append("Epsilon is computed in floating point and rounded towards a larger epsilon.")
    if release.accepted_charges or release.cancelled_charges:
        items.append(
            "The user accepted charges that a repair of the ledger found without a valid seal: "
            f"{release.accepted_charges} count in the total of the dataset, and "
            f"{release.cancelled_charges} were cancelled."
        )
    return tuple(items)
