"""Measures the speed of redaction, and its missed secrets on sets that did not train the redactor.

    python -m benchmarks.redaction speed --sentences 1000000
    python -m benchmarks.redaction left-out --data FOLDER --texts 1000
    python -m benchmarks.redaction own-labels --data FOLDER --set pii_presidio_synth --texts 300
    python -m benchmarks.redaction file --sentences 1000000

FOLDER has NAME/NAME.parquet for each set below, with columns `text`, `spans` (JSON: start, end,
label). The set `held_out` is the file redaction_held_out.txt. A row `default` is the default
policy, with a redactor that was trained on generated text alone. The redactor of a row
`default + others` was tuned on all sets except the tested set. A row `default + installed` also has
the detectors of Presidio and spaCy that are installed. No setting was chosen on the tested set.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate, product
from pathlib import Path

import pandas as pd

from sugarbush.privacy.binomial import BoundedShare, share
from sugarbush.privacy.events import PoissonGaussian
from sugarbush.randomness import hash_share, public_rng
from sugarbush.redactor.cache import default_redactor
from sugarbush.redactor.detector import LearnedDetector
from sugarbush.redactor.rewriting import Rewriter, redact_file
from sugarbush.redactor.texts import joined_pieces
from sugarbush.redactor.train import OWN_LABELS, Recipe, train_redactor
from sugarbush.redactor.values import ADDRESS, EMAIL, NAME, NUMBER, PHONE
from sugarbush.training.crt.confidentiality import bayesian
from sugarbush.training.crt.dedup import mask_duplicates
from sugarbush.training.crt.findings import DEFAULT_DETECTORS
from sugarbush.training.crt.patterns import PATTERNS, WEAK, RegexDetector
from sugarbush.training.crt.policies import INSTALLED, REGEX, make_policy
from sugarbush.training.crt.recall import LabelledText, distinct_secret, measure
from sugarbush.training.crt.redact import PAPER_THRESHOLD, Policy, TextSpan
from sugarbush.training.crt.sentences import Sentence


@dataclass(frozen=True)
class LabelledSet:
    """A labelled set, with the redactor's kind for each label that counts.

    `patterns_written_with` is true if the patterns were written while looking at the set.
    """

    kinds: dict[str, str]
    patterns_written_with: bool = False


SETS = {
    "customersim": LabelledSet(
        {"NAME": NAME, "ADDRESS": ADDRESS, "PHONE": PHONE, "ORDER_NUMBER": NUMBER,
         "TRACKING_NUMBER": NUMBER},
        patterns_written_with=True,
    ),
    "multiwoz21": LabelledSet(
        {"Ref": NUMBER, "Phone": PHONE, "Post": ADDRESS, "Addr": ADDRESS, "Id": NUMBER},
        patterns_written_with=True,
    ),
    "pii_presidio_synth": LabelledSet(
        {"PERSON": NAME, "STREET_ADDRESS": ADDRESS, "ZIP_CODE": ADDRESS, "PHONE_NUMBER": PHONE,
         "EMAIL_ADDRESS": EMAIL, "CREDIT_CARD": NUMBER, "IBAN_CODE": NUMBER, "US_SSN": NUMBER,
         "US_DRIVER_LICENSE": NUMBER, "IP_ADDRESS": NUMBER}
    ),
    "ner_real_names": LabelledSet({"PERSON": NAME}),
    "held_out": LabelledSet({}),
}  # fmt: skip
# Invented lines, with {KIND:secret} for each secret. They were written after the recipe and its
# thresholds, and nobody may change either because of a miss on them.
_HELD_OUT = Path(__file__).with_name("redaction_held_out.txt")
_TRAINING = PoissonGaussian(noise_multiplier=2.17, rate=0.25, count=12)  # see docs/log/crt.md
_DELTA = 1e-5
POLICIES = ("patterns", "default", "default + others", "default + installed")
_OF_OTHERS = 60_000  # number of characters that each other set contributes
_MOST_TEXTS = 2_000
_SPEED = "| what | sentences | s | CPU-s | a CPU-second | peak MiB |\n" + "|---" * 6 + "|"


def sentences(count: int) -> Iterator[list[Sentence]]:
    """Return documents of one sentence each. Two in five sentences are repetitions."""
    for number in range(count):
        case = number * 7919 % (count * 3 // 5)
        yield [
            Sentence(f"Case {case}: the parcel {case * 31} was {case % 90} days too late.", "\n")
        ]


def speed(count: int, learned: int) -> None:
    """Measure deduplication and redaction of `count` sentences.

    The classifier reads only `learned` sentences.
    """
    print(_SPEED)
    start = _now()
    for _ in mask_duplicates(sentences(count)):
        pass
    _row("deduplication", count, start)
    texts = [own[0].text for own in sentences(count)]
    policy = Policy([RegexDetector()])
    start = _now()
    for first in range(0, count, 10_000):
        policy.redact(texts[first : first + 10_000])
    _row("patterns", count, start)
    detector = default_redactor()
    start = _now()
    detector.find(texts[:learned])
    _row("learned", learned, start)


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _row(what: str, count: int, start: tuple[float, float]) -> None:
    seconds, cpu = (now - before for now, before in zip(_now(), start, strict=True))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"| {what} | {count:,} | {seconds:.1f} | {cpu:.1f} | {count / cpu:,.0f} | {peak:.0f} |")


def labelled(data: Path, name: str, texts: int) -> list[LabelledText]:
    """Return the `texts` texts of a set with the smallest hashes, and their secrets."""
    if name == "held_out":
        return [_marked(line) for line in _HELD_OUT.read_text(encoding="utf-8").splitlines()]
    kinds = SETS[name].kinds
    frame = pd.read_parquet(data / name / f"{name}.parquet", columns=["text", "spans"])
    frame = frame.sort_values("text", key=lambda column: column.map(hash_share))[:texts]
    return [
        LabelledText(
            text=text,
            spans=tuple(
                (s["start"], s["end"], kinds[s["label"]])
                for s in json.loads(spans)
                if s["label"] in kinds
            ),
        )
        for text, spans in zip(frame["text"], frame["spans"], strict=True)
    ]


def _marked(line: str) -> LabelledText:
    pieces = re.split(r"\{(\w+):([^{}]*)\}", line)  # plain, kind, secret, plain, ...
    pairs = [(own, "") for own in pieces[::3]]
    secrets = [*zip(pieces[2::3], pieces[1::3], strict=True), ("", "")]
    return joined_pieces([one for both in zip(pairs, secrets, strict=True) for one in both])


def some_of(sample: Sequence[LabelledText]) -> Iterator[LabelledText]:
    """Return the first texts, up to a number of characters."""
    characters = accumulate(len(one.text) for one in sample)
    return (one for one, so_far in zip(sample, characters, strict=True) if so_far <= _OF_OTHERS)


def default_policy(redactor: LearnedDetector) -> Policy:
    """Return the default policy with this redactor, combined as in `make_policy`."""
    return Policy([RegexDetector([label for label in PATTERNS if label not in WEAK]), redactor])


def missed_by_kind(
    sample: Sequence[LabelledText], masked: Sequence[Sequence[TextSpan]]
) -> dict[str, BoundedShare]:
    """Return the share of distinct secrets of each kind that are not completely masked.

    Each share has two-sided 95% bounds.
    """
    missed: dict[str, dict[object, bool]] = {}
    for one, own in zip(sample, masked, strict=True):
        for start, end, kind in one.spans:
            secret = distinct_secret(one.text[start:end], kind)
            is_missed = not any(s.start <= start and end <= s.end for s in own)
            known = missed.setdefault(kind, {})
            known[secret] = known.get(secret, False) or is_missed
    return {kind: share([*own.values()], confidence=0.975) for kind, own in sorted(missed.items())}


def over_masking(
    sample: Sequence[LabelledText], masked: Sequence[Sequence[TextSpan]]
) -> tuple[float, float]:
    """Return the share of masked words, and the share of masked spans that overlap a secret."""
    words = hidden = spans = meeting = 0
    for one, own in zip(sample, masked, strict=True):
        for word in re.finditer(r"\S+", one.text):
            words += 1
            hidden += any(s.start < word.end() and word.start() < s.end for s in own)
        spans += len(own)
        meeting += sum(any(a < s.end and s.start < b for a, b, _ in one.spans) for s in own)
    return hidden / words, meeting / max(1, spans)


def judge(
    name: str, policy: Policy, sample: Sequence[LabelledText], *, what: str, traced: int
) -> None:
    """Print one row for each kind of a set."""
    made = "patterns" if SETS[name].patterns_written_with else "misses were read"
    made = "nothing" if name == "held_out" else made
    start = time.process_time()
    masked = policy.spans([one.text for one in sample])
    rate = len(sample) / (time.process_time() - start)
    hidden, precision = over_masking(sample, masked)
    some = [one for one in sample if one.spans][:traced]
    gammas = measure(some, policy, name=name).traced_by_label if some else {}
    for kind, found in missed_by_kind(sample, masked).items():
        gamma = gammas[kind].upper if kind in gammas else 1.0
        epsilon = bayesian(_TRAINING, gamma=gamma, delta=_DELTA).epsilon
        print(
            f"| {name} | {what} | {made} | {kind} | {_missed(found)} | "
            f"{gamma:.3f} | {epsilon:.2f} | {100 * hidden:.1f}% | {100 * precision:.0f}% | "
            f"{rate:,.0f} |",
            flush=True,
        )


def _missed(found: BoundedShare) -> str:
    shares = (f"{100 * value:.1f}" for value in (found.value, found.lower, found.upper))
    return f"{found.count} / {found.total} | " + "{}% ({} to {})".format(*shares)


def left_out(
    data: Path, names: Sequence[str], texts: int, traced: int, policies: Sequence[str]
) -> None:
    """Print a table for every set, with the rows of each policy in `policies`."""
    print(
        "| left out | policy | made with it | kind | missed | share (95%) | gamma | epsilon | "
        "words masked | precision | texts/CPU-s |\n" + "|---" * 11 + "|"
    )
    for name in names:
        sample = labelled(data, name, texts)
        for what in policies:
            with ExitStack() as stack:
                policy = Policy([RegexDetector()])
                if what != POLICIES[0]:
                    redactor = default_redactor()
                    if what == POLICIES[2]:
                        own = [
                            one
                            for other in SETS
                            if other != name
                            for one in some_of(labelled(data, other, _MOST_TEXTS))
                        ]
                        redactor = stack.enter_context(tuned(redactor, own, seed=OWN_LABELS.seed))
                    policy = default_policy(redactor)
                if what == POLICIES[3]:
                    every = (*DEFAULT_DETECTORS, INSTALLED)
                    policy = make_policy(every, threshold=PAPER_THRESHOLD)
                judge(name, policy, sample, what=what, traced=traced)


@contextmanager
def tuned(
    base: LearnedDetector, labelled: Sequence[LabelledText], *, seed: int
) -> Iterator[LearnedDetector]:
    """Return the redactor, tuned on labelled texts as by `sugarbush train-redactor --labelled`."""
    with tempfile.TemporaryDirectory() as folder:
        yield train_redactor(
            replace(OWN_LABELS, seed=seed), Path(folder) / "tuned", start=base.folder,
            labelled=labelled, copies=Recipe.copies_of(labelled),
        )  # fmt: skip


def own_labels(
    data: Path, name: str, texts: int, counts: Sequence[int], seeds: Sequence[int]
) -> None:
    """Print the missed secrets by the number of own labelled texts, on other texts of the set."""
    every = labelled(data, name, texts + _MOST_TEXTS)
    judged, rest = every[:texts], every[texts:]
    print(
        "| set | labels | seed | kind | missed | share (95%) | words masked | s |\n"
        + "|---" * 8
        + "|"
    )
    for count, seed in product(counts, seeds):
        start = time.perf_counter()
        with ExitStack() as stack:
            redactor = default_redactor()
            if count:
                order = public_rng(seed, "own labels").permutation(len(rest))
                own = [rest[place] for place in order[:count]]
                redactor = stack.enter_context(tuned(redactor, own, seed=seed))
            seconds = time.perf_counter() - start
            masked = default_policy(redactor).spans([one.text for one in judged])
        hidden, _ = over_masking(judged, masked)
        for kind, found in missed_by_kind(judged, masked).items():
            print(
                f"| {name} | {count} | {seed} | {kind} | {_missed(found)} | {100 * hidden:.1f}% | "
                f"{seconds:.0f} |",
                flush=True,
            )


def file(count: int) -> None:
    """Print time and memory of `sugarbush redact`, by patterns alone, for `count` sentences."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "in.csv"
        with source.open("w", encoding="utf-8") as rows:
            rows.write("text\n")
            rows.writelines(f'"{own[0].text}"\n' for own in sentences(count))
        print(_SPEED)
        start = _now()
        rewriter = Rewriter([REGEX], threshold=PAPER_THRESHOLD, state=None)
        redact_file(source, Path(folder) / "out.parquet", rewriter, text="text")
        _row("file, patterns", count, start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("speed", "left-out", "own-labels", "file"))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--set", action="append", choices=list(SETS))
    parser.add_argument("--texts", type=int, default=1_000)
    parser.add_argument("--traced", type=int, default=100, help="texts that are redacted again")
    parser.add_argument("--policy", action="append", choices=POLICIES)
    parser.add_argument("--labels", type=int, nargs="+", default=[0, 50, 200, 500])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--sentences", type=int, default=1_000_000)
    parser.add_argument("--learned", type=int, default=20_000)
    args = parser.parse_args()
    names = args.set or list(SETS)
    if args.what == "speed":
        speed(args.sentences, args.learned)
    elif args.what == "left-out":
        left_out(args.data, names, args.texts, args.traced, args.policy or POLICIES)
    elif args.what == "file":
        file(args.sentences)
    else:
        own_labels(args.data, names[0], args.texts, args.labels, args.seeds)


if __name__ == "__main__":
    main()
