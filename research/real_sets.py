"""Writes 50 texts of a benchmark data set to a file, for use as donated examples.

    python -m research.real_sets cfpb_complaints

The 10% of the texts with the smallest hashes count as public. The donated texts are some of the
public texts. The output is data/public/benchmarks/<set>_donated.parquet. The file contains no other
text.
"""

import argparse
from pathlib import Path

import pandas as pd

from sugarbush.paths import atomic_file
from sugarbush.randomness import hash_share

SHARED = Path("../shared/data")
DONATED = 50
PUBLIC_SHARE = 0.1


def donated(name: str) -> pd.DataFrame:
    """Return DONATED rows of the public 10% of a data set.

    Rows with complete metadata come first, then rows with smaller hashes.
    """
    frame = pd.read_parquet(SHARED / name / f"{name}.parquet")
    share = frame["text"].map(hash_share)
    public = frame[share < PUBLIC_SHARE].assign(share=share[share < PUBLIC_SHARE])
    incomplete = ~public.get("full_metadata", pd.Series(True, index=public.index)).astype(bool)
    order = public.assign(incomplete=incomplete).sort_values(["incomplete", "share"])
    return order.head(DONATED).drop(columns=["share", "incomplete"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="the data set")
    name = parser.parse_args().name
    target = Path("data/public/benchmarks") / f"{name}_donated.parquet"
    with atomic_file(target) as path:
        donated(name).to_parquet(path, index=False)
    print(f"{target}: {DONATED} rows")


if __name__ == "__main__":
    main()
