"""Measures the speed of deduplication and redaction, and how many secrets the detectors miss.

python -m benchmarks.redaction --set customersim=../customersim.parquet --sentences 1000000

A data set has columns `text` and `spans` (JSON: start, end, label). With `--labels`, only spans
with these labels are used.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from sugarbush.privacy.binomial import Share
from sugarbush.training.crt.dedup import MASK, mask_duplicates
from sugarbush.training.crt.findings import Detector
from sugarbush.training.crt.patterns import RegexDetector
from sugarbush.training.crt.presidio import PresidioDetector
from sugarbush.training.crt.recall import LabelledText, measure
from sugarbush.training.crt.redact import Policy
from sugarbush.training.crt.sentences import Sentence


def sentences(count: int) -> Iterator[list[Sentence]]:
    """Return documents of one sentence each. Two in five sentences are repetitions."""
    for number in range(count):
        case = number * 7919 % (count * 3 // 5)
        yield [
            Sentence(f"Case {case}: the parcel {case * 31} was {case % 90} days too late.", "\n")
        ]


def time_duplicates(count: int) -> None:
    start = time.perf_counter()
    masked = sum(d[0].text == MASK for d in mask_duplicates(sentences(count)))
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"| {count:,} | {masked:,} | {seconds:.1f} | {peak:.0f} |")


def labelled(path: Path, labels: set[str]) -> list[LabelledText]:
    frame = pd.read_parquet(path)
    return [
        LabelledText(
            text=text,
            spans=tuple(
                (s["start"], s["end"], s["label"])
                for s in json.loads(spans)
                if not labels or s["label"] in labels
            ),
        )
        for text, spans in zip(frame["text"], frame["spans"], strict=True)
    ]


def told(share: Share) -> str:
    return (
        f"{share.count} / {share.total}, {share.value:.4f}, {share.lower:.4f} to {share.upper:.4f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--labels", default="")
    parser.add_argument("--presidio", action="store_true")
    parser.add_argument("--sentences", type=int, default=1_000_000)
    args = parser.parse_args()
    if args.sentences:
        print("| sentences | masked | s | peak MiB |\n|---|---|---|---|")
        time_duplicates(args.sentences)
    detectors: dict[str, Detector] = {"regex": RegexDetector()}
    if args.presidio:
        detectors["presidio patterns"] = PresidioDetector()
    for pair in args.set:
        name, _, path = pair.partition("=")
        sample = labelled(Path(path), set(filter(None, args.labels.split(","))))
        for kind, detector in detectors.items():
            policy = Policy([detector])
            start = time.perf_counter()
            policy.redact([one.text for one in sample])
            print(f"\n{name}, {kind}: {len(sample):,} texts in {time.perf_counter() - start:.2f} s")
            measured = measure(sample, policy, name=name)
            print("| label | missed / labelled, share, 95% bounds |\n|---|---|")
            rows = {"all": measured.missed, "missed or leaving a trace": measured.traced}
            for label, share in {**measured.missed_by_label, **rows}.items():
                print(f"| {label} | {told(share)} |")
            print(f"| masked spans that meet a label | {told(measured.precision)} |")


if __name__ == "__main__":
    main()
