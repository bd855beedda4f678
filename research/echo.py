"""Can membership be seen in synthetic texts alone?

    python -m research.echo FILE SCHEMA --text text --epsilons 1 1000 --copies 8

Half of the canaries of `sugarbush.audits.echo_canaries` are added to the records, `--copies` times
each; `dpft` is trained on them and writes texts. The attack scores every canary by the texts. The
file must be public: canaries and figures of it are printed. With copies the unit of the guarantee,
a record, is less than a canary. Source: Meeus et al. 2025, "The Canary's Echo".
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import pandas as pd

import sugarbush as sb
from sugarbush.audits import Attack, attack, echo_canaries, echo_scores


def measure(
    frame: pd.DataFrame, *, schema: Path, text: str, epsilon: float, canaries: int, copies: int
) -> Attack:
    """The attack on one run."""
    made = echo_canaries(frame[text].tolist(), count=canaries)
    members, others = made[: canaries // 2], made[canaries // 2 :]
    rows = frame.sample(len(members), replace=True, random_state=1).assign(**{text: members})
    with tempfile.TemporaryDirectory() as state:
        release = sb.synthesize(
            pd.concat([frame, *[rows] * copies], ignore_index=True).drop(
                columns="id", errors="ignore"
            ),
            text=text,
            schema=schema,
            method=sb.DPFT(),
            privacy=sb.Privacy(
                epsilon=epsilon, delta=1e-6, cap=2 * epsilon, dataset="echo", purpose="benchmark"
            ),
            state=Path(state),
        )
    return attack(echo_scores(release.texts, members), echo_scores(release.texts, others))


def main() -> None:
    """Print one line for each epsilon."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("schema", type=Path)
    parser.add_argument("--text", default="text")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 1000.0])
    parser.add_argument("--canaries", type=int, default=100)
    parser.add_argument("--copies", type=int, default=8)
    parser.add_argument("--records", type=int, default=1000)
    asked = parser.parse_args()
    read = pd.read_parquet if asked.file.suffix == ".parquet" else pd.read_json
    frame = read(asked.file, **({} if asked.file.suffix == ".parquet" else {"lines": True}))
    frame = frame.drop_duplicates(asked.text).head(asked.records)
    for epsilon in asked.epsilons:
        found = measure(
            frame,
            schema=asked.schema,
            text=asked.text,
            epsilon=epsilon,
            canaries=asked.canaries,
            copies=asked.copies,
        )
        auc = found.auc
        print(f"epsilon {epsilon:g}: AUC {auc.value:.3f} ({auc.lower:.3f} to {auc.upper:.3f})")


if __name__ == "__main__":
    main()
