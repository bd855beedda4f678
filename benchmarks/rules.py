"""Measures what rules between values do to the error of the DP table.

    python -m benchmarks.rules airline_tweets.parquet airline_tweets.schema.yaml \\
        --rule "{if: {sentiment: {not: negative}}, then: {negative_reason: none}}" --seeds 10

Each run draws the DP table of all records with the rules, and one without. TVD2 is the mean total
variation over all pairs of attributes between the private and the DP table, and "pair" the one over
the attributes of the first rule. "broken" is the share of rows that break a rule. Numbers are means
over the seeds with their standard errors. Delta is 1e-9. Without `--rule`, the rules of the schema
apply.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sugarbush.data.category_rules import Implication
from sugarbush.data.drawn_values import broken_categories
from sugarbush.data.schema import Schema, load_schema, schema_of
from sugarbush.data.written_yaml import load_written
from sugarbush.privacy.budget import mu_of
from sugarbush.privacy.data_types import Private
from sugarbush.randomness import public_rng
from sugarbush.tables.engines import drawn_within, restricted, run_engine
from sugarbush.tables.marginal_measurer import MarginalMeasurer
from sugarbush.tables.settings import SynthesizeMetadataSettings

DELTA = 1e-9
Codes = NDArray[np.int64]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("schema", type=Path)
    parser.add_argument("--rule", action="append")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 0.3])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rows", type=int)
    asked = parser.parse_args(arguments)
    schema = load_schema(asked.schema)
    if asked.rule:
        schema = with_rules(schema, asked.rule)
    codes = codes_in(asked.table, schema)
    if asked.rows:
        codes = codes[public_rng(0, "rows").permutation(len(codes))[: asked.rows]]
    print(f"{len(codes)} records, {broken_categories(schema, codes).mean():.2%} break a rule")
    for epsilon in asked.epsilons:
        rows = [measured(codes, schema, epsilon=epsilon, seed=n) for n in range(asked.seeds)]
        means = np.mean(rows, axis=0)
        moved = np.std(np.diff(rows, axis=1), axis=0, ddof=1)[0] / np.sqrt(len(rows))
        errors = np.std(rows, axis=0, ddof=1) / np.sqrt(len(rows))
        for name, figures, spread in zip(("without", "with"), means, errors, strict=True):
            shown = "  ".join(
                f"{what} {value:.4f} ± {error:.4f}"
                for what, value, error in zip(
                    ("TVD2", "pair", "broken"), figures, spread, strict=True
                )
            )
            print(f"epsilon {epsilon:g}  {name:7}  {shown}", flush=True)
        print(f"epsilon {epsilon:g}  error of the difference: {moved[0]:.4f}, {moved[1]:.4f}")


def with_rules(schema: Schema, rules: Sequence[str]) -> Schema:
    fields = schema.model_dump(mode="json")
    fields["rules"] = [load_written(rule, numbers=()) for rule in rules]
    return schema_of(fields, source="--rule")


def codes_in(table: Path, schema: Schema) -> Codes:
    frame = pd.read_parquet(table)
    return np.array(
        [
            [attribute.code(value) for value in frame[attribute.column]]
            for attribute in schema.attributes
        ]
    ).T


def measured(codes: Codes, schema: Schema, *, epsilon: float, seed: int) -> list[list[float]]:
    """Return TVD2, the error of the first rule's pair, and the share of broken rows of a table
    without rules, and then of one with rules."""
    pairs = list(itertools.combinations(range(len(schema.names)), 2))
    first = [schema.names.index(name) for name in schema.category_rules[0].names][:2]
    figures = []
    for rules in ((), schema.category_rules):
        drawn = draw(codes, schema, rules=rules, epsilon=epsilon, seed=seed)
        errors = [distance(codes, drawn, schema, columns=pair) for pair in pairs]
        broken = float(broken_categories(schema, drawn).mean())
        pair = distance(codes, drawn, schema, columns=first)
        figures.append([float(np.mean(errors)), pair, broken])
    return figures


def draw(
    codes: Codes, schema: Schema, *, rules: Sequence[Implication], epsilon: float, seed: int
) -> Codes:
    domain = restricted(schema.domain, rules)
    measurer = MarginalMeasurer(Private(codes), domain, mu=mu_of(epsilon=epsilon, delta=DELTA))
    made = run_engine(measurer, SynthesizeMetadataSettings())
    return drawn_within(made, domain, rules, rng=public_rng(seed, "rows"))


def distance(one: Codes, other: Codes, schema: Schema, *, columns: Sequence[int]) -> float:
    sizes = [len(schema.attributes[column].domain) for column in columns]
    shares = [
        np.bincount(np.ravel_multi_index(codes[:, columns].T, sizes), minlength=np.prod(sizes))
        / len(codes)
        for codes in (one, other)
    ]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


if __name__ == "__main__":
    main()
