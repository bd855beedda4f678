"""Draws the table "services", in which each intent belongs to one service.

    python -m benchmarks.services services.parquet services.schema.yaml
    python -m benchmarks.rules services.parquet services.schema.yaml --epsilons 1 --seeds 10

The table has 2,500 rows. Each of 40 intents belongs to one of 19 services, and four attributes
depend on the service. The schema declares one rule per intent.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from sugarbush.randomness import public_rng

ROWS, SERVICES, INTENTS = 2_500, 19, 40
OTHERS = {"channel": 4, "urgency": 3, "team": 8, "outcome": 5}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("schema", type=Path)
    asked = parser.parse_args(arguments)
    rng = public_rng(0, "services")
    service_of = np.sort(
        np.r_[np.arange(SERVICES), rng.integers(SERVICES, size=INTENTS - SERVICES)]
    )
    intent = rng.choice(INTENTS, size=ROWS, p=rng.dirichlet(np.ones(INTENTS)))
    codes = {"service": service_of[intent], "intent": intent}
    sizes = {"service": SERVICES, "intent": INTENTS, **OTHERS}
    for name, size in OTHERS.items():
        shares = rng.dirichlet(np.full(size, 0.7), size=SERVICES)[codes["service"]].cumsum(axis=1)
        codes[name] = np.minimum((rng.random(ROWS)[:, None] > shares).sum(axis=1), size - 1)
    values = {name: [f"{name}{code:02d}" for code in range(size)] for name, size in sizes.items()}
    table = {name: [values[name][code] for code in codes[name]] for name in sizes}
    pd.DataFrame(table).to_parquet(asked.table)
    schema = {
        "subject": "requests to the services of a city",
        "rules": [
            {"if": {"intent": one}, "then": {"service": values["service"][service]}}
            for one, service in zip(values["intent"], service_of, strict=True)
        ],
        "attributes": [
            {"name": name, "column": name, "values": texts[:-1], "other": texts[-1]}
            for name, texts in values.items()
        ],
    }
    asked.schema.write_text(yaml.safe_dump(schema, sort_keys=False))


if __name__ == "__main__":
    main()
