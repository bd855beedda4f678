#!/usr/bin/env bash
# datasets' `map` returns stored rows of a function whose code has changed.
#
# Guess: the fingerprint covers the function's code, so a changed cleaning function runs again
# Truth: a function that is imported from a module counts by its name alone. After an edit of the module, a new
#   process returns the rows of the old code. The same function in the main script would run again
# Packages: datasets==5.2.0, pyarrow==26.0.1; Python 3.11
# Date: 2026-11-29
# Source: datasets/fingerprint.py and dill: functions of importable modules are pickled by reference
# Output seen: the lines of `expected`. The script fails if they change.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  datasets==5.2.0 pyarrow==26.0.1
cd "$folder"

cat > expected <<'END'
lower -> private letter
upper -> private letter
END

HF_HUB_OFFLINE=1 venv/bin/python - > seen <<'END'
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

pq.write_table(pa.table({"text": ["Private Letter"]}), "rows.parquet")
PROGRAM = """
import datasets, sys
sys.path.insert(0, ".")
datasets.disable_progress_bars()
from cleaning import clean
rows = datasets.load_dataset("parquet", data_files="rows.parquet", split="train", cache_dir="cache")
print(rows.map(clean)["text"][0])
"""
Path("run.py").write_text(PROGRAM)
for code in ("lower", "upper"):
    Path("cleaning.py").write_text(f"def clean(row):\n    return {{'text': row['text'].{code}()}}\n")
    done = subprocess.run([sys.executable, "-B", "run.py"], text=True, capture_output=True, check=True)
    print(code, "->", done.stdout.strip())
END

diff expected seen
echo "datasets-map-of-a-module: as described"
