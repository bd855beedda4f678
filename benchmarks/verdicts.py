"""Tests the first look and the verdict on runs that are known to be good or worthless.

    python -m benchmarks.verdicts --data FOLDER --work FOLDER --out rows.jsonl [--only yelp] \\
        [--part 0 2]

FOLDER of --data contains <set>/<set>.parquet. Every case is one run of `sugarbush.synthesize` at
epsilon 1 with a pool of public texts, or with a server on the loopback interface. A good case has a
pool with texts of the kind of the records. The other cases are of no use, in different ways.
`--work` keeps the embeddings. `--part I N` runs every N-th case from I on. A line of the output has
the case, what happened (a grade, or the error that stopped the run), the spent epsilon, the share
of the planned mu^2 that is left, and MAUVE against held-out records.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.stats import norm

import sugarbush as sb
from sugarbush.embedding.cache import EmbeddingCache, EmbeddingsInMemory
from sugarbush.errors import GeneratorError, PoorFitError, PoorRehearsalError
from sugarbush.evaluation import mauve_score
from sugarbush.generators.interface import GeneratorSettings
from sugarbush.json_lines import read_json_lines

PRIVATE, POOL, TEXTS, FEW_TEXTS, DONATED = 1800, 800, 400, 120, 50
DELTA: Final = 1e-6


@dataclass(frozen=True, kw_only=True)
class TextSet:
    """A data set: what its texts are, and the column of a label."""

    subject: str
    label: str


SETS: Final = {
    "airline_tweets": TextSet(subject="messages of passengers to airlines", label="sentiment"),
    "customersim": TextSet(subject="dialogues with customer service", label="intent"),
    "it_tickets": TextSet(subject="tickets of an IT help desk", label="category"),
    "yelp": TextSet(subject="reviews of local businesses", label="category"),
    "cfpb_complaints": TextSet(subject="complaints about banks", label="product_group"),
    "medical_abstracts": TextSet(subject="abstracts of medical papers", label="condition"),
    "neurips_abstracts": TextSet(
        subject="abstracts of papers on machine learning", label="area_derived"
    ),
    "mts_dialog": TextSet(
        subject="dialogues of doctors with patients", label="section_header"
    ),
    "pii_presidio_synth": TextSet(subject="sentences with personal data", label="has_pii"),
    "ner_real_names": TextSet(subject="sentences with names", label="genre"),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Case:
    """A run on records of `of`. `good` says whether its release should be of use."""

    of: str
    kind: str
    good: bool
    donated: bool = False
    user: bool = False

    @property
    def name(self) -> str:
        further = [word for word in ("donated", "user") if getattr(self, word)]
        return "-".join([self.of, self.kind.replace(" ", "_"), *further])


def cases() -> list[Case]:
    """Return twenty good and 21 worthless runs."""
    good = [
        Case(
            of=name,
            kind="mixed" if at % 3 == 1 else "same kind",
            good=True,
            donated=donated,
            user=at % 4 == 2,
        )
        for at, name in enumerate(SETS)
        for donated in (False, True)
    ]
    foreign = [
        Case(of=name, kind="foreign", good=False, user=at % 4 == 2)
        for at, name in enumerate(list(SETS)[:8])
    ]
    others = [
        Case(of="airline_tweets", kind="foreign", good=False, donated=True),
        Case(of="yelp", kind="foreign", good=False, donated=True),
        Case(of="airline_tweets", kind="server", good=False),
        Case(of="yelp", kind="server", good=False),
        Case(of="yelp", kind="three words", good=False),
        Case(of="airline_tweets", kind="twelve in one", good=False),
        Case(of="airline_tweets", kind="other language", good=False),
        Case(of="airline_tweets", kind="template", good=False),
        Case(of="yelp", kind="one text", good=False),
        Case(of="airline_tweets", kind="labels shuffled", good=False),
        Case(of="yelp", kind="two of ten values", good=False),
        Case(of="customersim", kind="one of five values", good=False),
        Case(of="customersim", kind="few of the kind", good=False),
    ]
    return [*good, *foreign, *others]


def run(case: Case, *, data: Path, work: Path) -> dict[str, Any]:
    """Run a case and return its line."""
    chosen = SETS[case.of]
    frame = _frame(data, case.of, chosen.label).sample(frac=1, random_state=3)
    label = chosen.label
    most = min(PRIVATE, int(0.6 * len(frame)))
    donated, private, rest = (
        frame.iloc[:DONATED], frame.iloc[DONATED:most], frame.iloc[most:]
    )  # fmt: skip
    values = list(private[label].value_counts().index.drop("other", errors="ignore")[:12])
    private = private.assign(person=[f"u{at // 3}" for at in range(len(private))])
    if case.kind == "labels shuffled":
        shuffled = private[label].sample(frac=1, random_state=1).to_numpy()
        private = private.assign(**{label: shuffled})
    pool = _pool(case, rest, data=data, label=label, values=values)
    privacy: dict[str, Any] = {"unit": "user", "records_per_user": 3} if case.user else {}
    row: dict[str, Any] = {**dataclasses.asdict(case), "name": case.name}
    start, cpu = time.perf_counter(), time.process_time()
    with (
        tempfile.TemporaryDirectory() as state,
        _generator(case, pool) as generator,
    ):
        corpus = sb.prepare(
            private,
            schema={
                "subject": _subject(case),
                "attributes": [{"name": "label", "column": label, "values": values}],
            },
            donated=donated[["text", label]] if case.donated else None,
            user="person" if case.user else None,
            privacy=sb.Privacy(dataset=case.name, epsilon=1, delta=DELTA, cap=9, **privacy),
            generator=generator,
            settings={
                "embedding": {"max_tokens": 64},
                "prepare": {"heldout_share": 0.25, "accept_overlap": True},
            },
            state=Path(state),
        )
        stored = EmbeddingsInMemory(EmbeddingCache(work / "embeddings"))
        corpus = dataclasses.replace(corpus, embeddings={True: stored, False: stored})
        said: list[str] = []
        texts = FEW_TEXTS if case.kind == "mixed" else TEXTS  # fewer than the pool has of the kind
        try:
            release = sb.synthesize(corpus, method=sb.Mosaic(), texts=texts, report=said.append)
        except (PoorFitError, PoorRehearsalError, GeneratorError) as stop:
            unit: dict[str, Any] = {"unit": "user", "user_column": "person"} if case.user else {}
            epsilon = sb.open_ledger(case.name, state=Path(state), **unit).total()
            row |= {"outcome": type(stop).__name__, "epsilon": epsilon, "said": str(stop)}
        else:
            vectors = corpus.encode(list(release.texts), private=False)
            tested = corpus.encode(corpus.real_texts("heldout").texts, private=True)
            clusters = min(len(vectors), len(tested)) // 10
            row |= {
                "outcome": release.verdict.grade,
                "training": release.verdict.training,
                "epsilon": release.epsilon,
                "mauve": mauve_score(tested, vectors, clusters=clusters, seed=1),
                "said": release.verdict.line(),
                "figures": dict(release.verdict.figures),
            }
    left = 1 - (mu_of(row["epsilon"]) / mu_of(1.0)) ** 2
    spent_s = {"wall": time.perf_counter() - start, "cpu": time.process_time() - cpu}
    return {**row, "left": left, "report": said, **spent_s}


def mu_of(epsilon: float) -> float:
    """Return mu of the Gaussian mechanism with (epsilon, DELTA)."""
    if epsilon <= 0:
        return 0.0

    def excess(mu: float) -> float:
        upper = norm.cdf(-epsilon / mu + mu / 2)
        return float(upper - np.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2) - DELTA)

    return float(brentq(excess, 1e-3, 10))


def _pool(
    case: Case, rest: pd.DataFrame, *, data: Path, label: str, values: Sequence[str]
) -> list[str]:
    """Return the public texts of a case."""
    kind = rest["text"].tolist()
    of_kind = kind[:POOL]
    texts: dict[str, Callable[[], list[str]]] = {
        "same kind": lambda: of_kind,
        "labels shuffled": lambda: of_kind,
        "mixed": lambda: of_kind[: POOL // 4] + _foreign(case, data),
        "few of the kind": lambda: of_kind[:40] + _foreign(case, data),
        "foreign": lambda: _foreign(case, data),
        "server": lambda: _foreign(case, data),
        "three words": lambda: sorted({" ".join(text.split()[:3]) for text in of_kind}),
        "twelve in one": lambda: [" ".join(kind[at : at + 12]) for at in range(0, 9000, 12)],
        "other language": lambda: list(_german()),
        "template": lambda: list(_template()),
        "one text": lambda: [f"{kind[0]} ({number})" for number in range(300)],
        "two of ten values": lambda: _of_values(rest, label, values[-2:]),
        "one of five values": lambda: _of_values(rest, label, values[-1:]),
    }
    return [text for text in texts[case.kind]() if text]


def _of_values(rest: pd.DataFrame, label: str, values: Sequence[str]) -> list[str]:
    return [str(text) for text in rest[rest[label].isin(values)]["text"][:POOL]]


def _subject(case: Case) -> str:
    """Return the subject of the schema: that of the pool, because a rehearsal notices a wrong one.

    So the records must tell that the texts are foreign.
    """
    if case.kind not in ("foreign", "server"):
        return SETS[case.of].subject
    return " and ".join(SETS[other].subject for other in _far_sets(case))


def _far_sets(case: Case) -> list[str]:
    """Return the names of two sets that have nothing to do with the records."""
    names = list(SETS)
    at = names.index(case.of)
    far = {"neurips_abstracts": (2, 7), "medical_abstracts": (3, 5)}.get(case.of, (4, 6))
    return [names[(at + step) % len(names)] for step in far]


def _foreign(case: Case, data: Path) -> list[str]:
    return [
        text
        for other in _far_sets(case)
        for text in _frame(data, other, SETS[other].label)["text"].sample(POOL // 2, random_state=0)
    ]


def _template() -> Iterator[str]:
    for city in ("Denver", "Boston", "Dallas", "Miami", "Austin", "Newark", "Phoenix", "Tampa"):
        for gate in range(50):
            yield f"Your flight to {city} is delayed. Please go to gate {gate + 1}."


def _german() -> Iterator[str]:
    for who in ("Der Flug", "Mein Koffer", "Die Maschine", "Unser Anschluss", "Der Service"):
        for what in ("war gestern", "ist heute", "kam am Montag", "blieb wieder", "war am Abend"):
            for how in ("verspätet", "schrecklich", "pünktlich", "ganz in Ordnung", "unerträglich"):
                for end in ("danke dafür", "niemand hilft", "was nun", "nie wieder"):
                    yield f"{who} {what} {how}, {end}."


class _Opened:
    """A generator for the time of a run: a pool, or a server that ignores its prompts."""

    def __init__(self, settings: GeneratorSettings, close: Callable[[], None]) -> None:
        self.settings, self.close = settings, close

    def __enter__(self) -> GeneratorSettings:
        return self.settings

    def __exit__(self, *_: object) -> None:
        self.close()


def _generator(case: Case, pool: Sequence[str]) -> _Opened:
    if case.kind != "server":
        return _Opened(sb.Pool(texts=tuple(pool)), lambda: None)

    class Answers(BaseHTTPRequestHandler):
        number = 0

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            Answers.number += 1
            message = {"role": "assistant", "content": pool[Answers.number % len(pool)]}
            body = json.dumps(
                {
                    "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                    "usage": {"prompt_tokens": 10, "completion_tokens": 10},
                }
            ).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings = sb.OpenAI(
        model="m", base_url=f"http://127.0.0.1:{server.server_port}/v1", key_variable=None
    )

    def close() -> None:
        server.shutdown()
        server.server_close()

    return _Opened(settings, close)


def _frame(data: Path, name: str, label: str) -> pd.DataFrame:
    frame = pd.read_parquet(data / name / f"{name}.parquet").dropna(subset=[label])
    frame = frame.assign(text=frame["text"].str[:800].str.strip()).drop_duplicates("text")
    return frame[["text", label]].astype(str).reset_index(drop=True)


def table(file: Path) -> str:
    """Return the cases as a table in Markdown."""
    lines = ["| case | outcome | epsilon | left of mu^2 | MAUVE |", "|---|---|---|---|---|"]
    for row in read_json_lines(file.read_text("utf-8")):
        mauve = "" if row.get("mauve") is None else f"{row['mauve']:.3f}"
        left = "" if mauve else f"{row['left']:.0%}"
        lines.append(
            f"| {row['name']} | {row['outcome']} | {row['epsilon']:.3f} | {left} | {mauve} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="", help="a part of the names of the cases")
    parser.add_argument("--part", type=int, nargs=2, default=(0, 1))
    given = parser.parse_args()
    first, step = given.part
    for case in [case for case in cases() if given.only in case.name][first::step]:
        row = run(case, data=given.data, work=given.work)
        with given.out.open("a") as out:
            out.write(json.dumps(row, default=float) + "\n")
        print(row["name"], row["outcome"], round(row["epsilon"], 3), flush=True)
    print(table(given.out))


if __name__ == "__main__":
    main()
