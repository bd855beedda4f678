#!/usr/bin/env bash
# SQLAlchemy on SQLite drops the offset of a `DateTime(timezone=True)`.
#
# Guess: noon at +05:00 comes back as the same instant, is equal to 07:00 UTC and is before 11:00 UTC
# Truth: the offset is dropped without conversion: noon comes back without a zone, is not found by its instant, and
#   is sorted after 11:00 UTC. The column type promises a zone, and nothing warns
# Packages: SQLAlchemy==2.0.58; Python 3.11
# Date: 2026-11-29
# Source: sqlalchemy/dialects/sqlite/base.py, `DATETIME`
# Output seen: the lines of `expected`. The script fails if they change.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  SQLAlchemy==2.0.58
cd "$folder"

cat > expected <<'END'
first: 2026-01-01 11:00:00
found by the instant: 0
2026-01-01 12:00:00
END

venv/bin/python - > seen <<'END'
from datetime import datetime, timedelta, timezone

import sqlalchemy as sa

engine, data = sa.create_engine("sqlite://"), sa.MetaData()
letters = sa.Table("letters", data, sa.Column("at", sa.DateTime(timezone=True)))
data.create_all(engine)
noon = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=5)))
eleven = datetime(2026, 1, 1, 11, tzinfo=timezone.utc)
with engine.begin() as connection:
    connection.execute(letters.insert(), [{"at": noon}, {"at": eleven}])
    print("first:", connection.execute(sa.select(letters.c.at).order_by(letters.c.at)).scalars().first())
    same = sa.select(sa.func.count()).where(letters.c.at == noon.astimezone(timezone.utc))
    print("found by the instant:", connection.execute(same).scalar())
    print(connection.execute(sa.select(letters.c.at)).scalars().first())
END

diff expected seen
echo "sqlalchemy-sqlite-time-zones: as described"
