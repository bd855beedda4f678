"""Serve the pipeline every week from this folder: `python -m flows.weekly`.

Only one run is started at a time. The schedule needs a Prefect server: start it with `prefect
server start --background`, and set PREFECT_API_URL.
"""

from flows.pipeline import pipeline

if __name__ == "__main__":
    pipeline.serve(name="weekly", cron="0 3 * * 1", limit=1)
