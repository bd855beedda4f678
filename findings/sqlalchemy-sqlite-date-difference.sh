#!/usr/bin/env bash
# On SQLite, the difference of two dates of one year is 0.
#
# Guess: the difference of the last and the first date is 59 days, or an error; the average of two hours is one and
#   a half
# Truth: SQLite stores dates as text, and arithmetic on text uses the number at its start, the year. So the
#   difference of dates is a difference of years, and the average of any durations is 1970, the year of the epoch
#   they are stored from
# Packages: SQLAlchemy==2.0.58; Python 3.11
# Date: 2026-11-29
# Source: SQLite's conversion of text in arithmetic; sqlalchemy/sql/sqltypes.py, `Interval` without native support
# Output seen: the lines of `expected`. The script fails if they change.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  SQLAlchemy==2.0.58
cd "$folder"

cat > expected <<'END'
difference 0
average 1970.0
END

venv/bin/python - > seen <<'END'
from datetime import date, timedelta

import sqlalchemy as sa

engine, data = sa.create_engine("sqlite://"), sa.MetaData()
stays = sa.Table("stays", data, sa.Column("day", sa.Date), sa.Column("length", sa.Interval))
data.create_all(engine)
rows = [
    {"day": date(2026, 1, 1), "length": timedelta(hours=1)},
    {"day": date(2026, 3, 1), "length": timedelta(hours=2)},
]
with engine.begin() as connection:
    connection.execute(stays.insert(), rows)
    days = sa.func.max(stays.c.day) - sa.func.min(stays.c.day)
    print("difference", connection.execute(sa.select(days)).scalar())
    print("average", connection.execute(sa.select(sa.func.avg(stays.c.length))).scalar())
END

diff expected seen
echo "sqlalchemy-sqlite-date-difference: as described"
