"""Runs another program on the records, the generator and the embedding of a data set.

The program runs in its own process and environment, so its dependencies are not in this project.
Its argument is a folder with three files:

    task.json      epsilon, delta, the number of texts to release, and options
    records.npy    unit vectors of the private records, (n, d) float32
    labels.npy     codes of the records' labels, (n,); -1: the program uses no labels

The program requests texts on its standard output, with one line of JSON for each request. After
each request, it reads one line from its standard input. The line names a file in the folder:

    {"random": 200, "label": 4}    200 new texts with this label (RANDOM_API)
    {"vary": [3, 17]}              one variation of each text (VARIATION_API)
    {"vectors": "1.npy"}           the answer: unit vectors of the texts, (m, d) float32

The texts of a run have the numbers 0, 1, 2, … in the order of the answers. At the end, the program
writes the numbers of the released texts to release.json. It receives no text. `research.dpsda` is
such a program.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import sugarbush as sb
from research.benchmark_dataset import BenchmarkDataset
from sugarbush.errors import GeneratorError, PrivacyError
from sugarbush.generators import GeneratorContext, RandomRequest, VariationRequest
from sugarbush.randomness import public_rng

NO_LABEL = -1
_ATTEMPTS = 5  # how often an unusable text is requested again


def label_column(corpus: sb.Corpus) -> int:
    """Return the schema's column with the label of `augpe`."""
    label = corpus.settings.synthesize_metadata.label
    return 0 if label is None else corpus.schema.names.index(label)


class TextSource:
    """The texts of one run. Requests go to the data set's generator.

    A prompt for a new text has `examples` donated texts. A prompt with a label names its value.
    `calls` counts all requests.
    """

    def __init__(self, dataset: BenchmarkDataset, *, examples: int, seed: int, state: Path) -> None:
        corpus = dataset.corpus
        settings = corpus.settings
        self._corpus, self._examples = corpus, examples
        self._rng = public_rng(seed, "peer")
        self._mask_share = sb.AugPE().mask_share
        self._generator = settings.generator.chosen.open(
            GeneratorContext(
                seed=seed, state=state, account=settings.privacy.dataset, stage="peer",
                base=corpus.base, embed=lambda texts: corpus.encode(texts, private=False),
                say=print, memory=corpus.generators.setdefault(settings.embedding, {}),
                shape=corpus.schema.shape,
            )
        )  # fmt: skip
        self.texts: list[str] = []
        self.calls = 0

    def random(self, count: int, *, label: int) -> list[str]:
        return self._written([None] * count, label=label)

    def vary(self, numbers: Sequence[int]) -> list[str]:
        return self._written([self.texts[number] for number in numbers])

    def _written(self, parents: Sequence[str | None], *, label: int = NO_LABEL) -> list[str]:
        """Return one text for each parent. Raises GeneratorError if the generator gives none."""
        texts: list[str | None] = [None] * len(parents)
        for _ in range(_ATTEMPTS):
            missing = [index for index, text in enumerate(texts) if text is None]
            if not missing:
                break
            requests = tuple(self.request(parents[index], label=label) for index in missing)
            answers = self._generator.generate(sb.Released(requests)).value
            for index, answer in zip(missing, answers, strict=True):
                texts[index] = answer.text
        if None in texts:
            raise GeneratorError(f"the generator gave {texts.count(None)} unusable texts")
        written = [text for text in texts if text is not None]
        self.texts += written
        return written

    def request(self, parent: str | None, *, label: int) -> RandomRequest | VariationRequest:
        """Return a request for a variation of `parent` or, without a parent, for a new text."""
        schema = self._corpus.schema
        common: dict[str, Any] = {
            "subject": schema.subject, "style": schema.style, "language": schema.language,
            "words": self._corpus.settings.initialise.length.of(self.calls),
            "sample": self.calls, "shape": schema.shape,
        }  # fmt: skip
        self.calls += 1
        if parent is not None:
            return VariationRequest(**common, parent=parent, mask_share=self._mask_share)
        donated = self._corpus.donated.texts
        count = min(self._examples, len(donated))
        chosen = self._rng.choice(len(donated), size=count, replace=False)
        return RandomRequest(
            **common,
            attributes=self._attributes(label),
            examples=tuple(donated[index] for index in chosen),
        )

    def _attributes(self, label: int) -> tuple[tuple[str, str], ...]:
        if label == NO_LABEL:
            return ()
        attribute = self._corpus.schema.attributes[label_column(self._corpus)]
        return ((attribute.name, attribute.domain[label]),)


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A program with its options, and a `description` of both.

    `options` are further fields of task.json. `examples` is the number of donated examples in a
    prompt. `labels` says whether the program gets the records' labels.
    """

    command: tuple[str, ...]
    description: str
    options: Mapping[str, Any] = field(default_factory=dict)
    examples: int = 0
    labels: bool = False

    def run(
        self, dataset: BenchmarkDataset, *, texts: int, epsilon: float, seed: int
    ) -> TextRelease:
        """Return the texts that the program releases. Its budget is `epsilon`, and the data set's
        delta.

        Raises PrivacyError for private data, because nothing limits what a program does with it.
        """
        if dataset.corpus.settings.privacy.purpose != "benchmark":
            raise PrivacyError("another program needs public data (privacy.purpose: benchmark)")
        with tempfile.TemporaryDirectory(prefix="sugarbush-peer-") as name:
            folder = Path(name)
            source = TextSource(dataset, examples=self.examples, seed=seed, state=folder)
            task = {"epsilon": epsilon, "delta": dataset.corpus.settings.privacy.delta}
            task |= {"texts": texts, **self.options}
            (folder / "task.json").write_text(json.dumps(task))
            records = dataset.corpus.real_texts("train")
            np.save(folder / "records.npy", dataset.corpus.encode(records.texts, private=True))
            labels = np.full(len(records.texts), NO_LABEL)
            if self.labels:
                labels = np.asarray(records.codes)[:, label_column(dataset.corpus)]
            np.save(folder / "labels.npy", labels)
            self._converse(source, dataset, folder)
            numbers = json.loads((folder / "release.json").read_text())
        if not set(numbers) <= set(range(len(source.texts))):
            raise RuntimeError(f"{self.command[-1]} released a text that it had not requested")
        return TextRelease(tuple(source.texts[number] for number in numbers), source.calls)

    def _converse(self, source: TextSource, dataset: BenchmarkDataset, folder: Path) -> None:
        """Run the program, and answer its requests. Raises RuntimeError if the program fails."""
        log = folder / "stderr.txt"
        with log.open("w") as errors:
            process = subprocess.Popen(
                [*self.command, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=errors, text=True,
            )  # fmt: skip
            try:
                with process:
                    _answer_all(process, source, dataset, folder)
            except BrokenPipeError:
                pass  # the program stopped, and its last line says why
        if process.returncode != 0:
            lines = log.read_text().splitlines()
            raise RuntimeError(f"{self.command[-1]} failed: {lines[-1] if lines else 'no output'}")


@dataclass(frozen=True)
class TextRelease:
    """The texts of a release, and the number of generator calls of its run."""

    texts: tuple[str, ...]
    calls: int


def _answer_all(
    process: subprocess.Popen[str], source: TextSource, dataset: BenchmarkDataset, folder: Path
) -> None:
    assert process.stdin is not None and process.stdout is not None
    try:
        for number, line in enumerate(process.stdout):
            request = json.loads(line)
            if "random" in request:
                new = source.random(request["random"], label=request["label"])
            else:
                new = source.vary(request["vary"])
            name = f"{number}.npy"
            np.save(folder / name, dataset.corpus.encode(new, private=False))
            process.stdin.write(json.dumps({"vectors": name}) + "\n")
            process.stdin.flush()
    except BaseException:
        process.kill()
        raise


def dpsda(checkout: Path, *, python: str = sys.executable, variations: int) -> dict[str, Peer]:
    """Return configurations of DPSDA by name. `checkout` is a clone of its repository.

    `dpsda-text` has the options of its examples for text, with ten rounds and votes by label.
    `dpsda-examples` has as many candidates, rounds and calls as `maple`, and donated examples in
    its prompts. `dpsda-once` has the same prompts, but spends as many calls on the first texts, and
    has one vote.
    """
    version, command = _version(checkout), (python, str(Path(__file__).with_name("dpsda.py")))
    recipe = _options(rounds=10, first_variations=6, variations=6, last_variations=6)
    two = _options(rounds=2, first_variations=variations - 1, variations=variations - 1)
    once = _options(rounds=1, first=2 * variations - 1, neighbours=5)

    def peer(options: dict[str, int], *, examples: int = 0, labels: bool = False) -> Peer:
        votes = "votes by label" if labels else "no labels"
        described = (f"{name.replace('_', ' ')} {value}" for name, value in options.items())
        return Peer(
            command=command,
            description=", ".join((version, votes, f"examples {examples}", *described)),
            options={"checkout": str(checkout.resolve()), "options": options},
            examples=examples,
            labels=labels,
        )

    examples = sb.Maple().examples
    return {
        "dpsda-text": peer(recipe, labels=True),
        "dpsda-examples": peer(two, examples=examples),
        "dpsda-once": peer(once, examples=examples),
    }


def _options(
    *, rounds: int, first: int = 1, first_variations: int = 0, variations: int = 0,
    last_variations: int = 0, neighbours: int = 1,
) -> dict[str, int]:  # fmt: skip
    """Return options of `research.dpsda`.

    A run starts with `first` new texts per released text, and `first_variations` variations of
    each. A record votes for its nearest `neighbours`. After each vote except the last one, each
    selected text gets `variations` variations, and `last_variations` after the last vote.
    """
    return {
        "rounds": rounds, "first": first, "first_variations": first_variations,
        "variations": variations, "last_variations": last_variations, "neighbours": neighbours,
    }  # fmt: skip


def _version(checkout: Path) -> str:
    """Return the commit of a git repository, and whether its files are modified."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(checkout), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no")
    return f"DPSDA {git('rev-parse', '--short', 'HEAD')}, {'modified' if changed else 'unmodified'}"
