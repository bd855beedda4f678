"""Lists the modules that draw noise, make released values, or open private data.

`test_side_doors` checks that the lists are complete. If you add a module, write the reason.
"""

from __future__ import annotations

# The modules that import from sugarbush.privacy.noise, and the functions that they import.
IMPORTS_NOISE: dict[str, tuple[str, ...]] = {
    "sugarbush.privacy.mechanisms": ("discrete_gaussian",),  # histograms and sums of scores
    "sugarbush.privacy.distances": ("discrete_gaussian",),  # distances from public references
    "sugarbush.tables.marginal_measurer": ("discrete_gaussian", "report_noisy_max"),  # AIM
    "sugarbush.training.dpsgd.sampling": (
        "poisson_sample",
        "secret_choice",
        "secret_order",
    ),  # secret samples
    "sugarbush.training.dpsgd.optimizer": ("add_gaussian",),  # a step of DP-SGD
}

# Modules that call `Released(...)`, and why they may release the value.
BUILDS_RELEASED: dict[str, str] = {
    # Outputs of mechanisms, with their ledger entries.
    "sugarbush.privacy.data_types": "the class itself: map and as_released_array keep the entries",
    "sugarbush.privacy.mechanisms": "noisy counts above a threshold, under their charge",
    "sugarbush.tables.engines": "rows and record count of AIM, under its charge",
    "sugarbush.training.dpsgd.train": "a model by DP-SGD, under its charge",
    "sugarbush.training.dpsgd.ordinary": "a model without noise, charged as not private",
    "sugarbush.methods.nonprivate": "real rows, charged as not private; stays in the private root",
    # Post-processing of released values, with the ledger entries of these values.
    "sugarbush.evolution.starts": "rows of the DP table, targets by DP label counts, or none",
    "sugarbush.methods.of_parts": "first requests, made of targets",
    "sugarbush.methods.dpft": "the released model, and codes from the DP table",
    "sugarbush.methods.crt": "the trained model, and empty prompts",
    "sugarbush.training.dpsgd.generate": "texts of a released model",
    "sugarbush.training.fine_tune": "epsilon of the plan that the training followed",
    "sugarbush.privacy.results": "a finished draw, restored with its entries",
    "sugarbush.evolution.evolve": "requests made of released parents",
    "sugarbush.evolution.writer": "no answers to no requests",
    "sugarbush.evolution.enlarge": "requests made of rows of the DP table",
    "sugarbush.generators.openai.generator": "answers to released requests",
    "sugarbush.generators.pool": "answers to released requests, with released numbers",
    "sugarbush.generators.huggingface.generator": "answers to released requests",
    "sugarbush.pipeline.run_in_memory": "results of this process, with their entries",
    # Values restored from a released folder, with the ledger entries in its release.json.
    "sugarbush.release.folders": "any released folder",
    "sugarbush.pipeline.dp_table": "the DP table and label counts",
    "sugarbush.quality.measure": "numbers of charged mechanisms, with their entries",
    "sugarbush.quality.public_quality": "public figures, with their entries",
    "sugarbush.pipeline.page_data": "a method's rounds and texts",
    "sugarbush.tables.dp_table": "the DP table",
    # Values that do not depend on private data.
    "sugarbush.report.model": "labels of a method that has none",
    "sugarbush.generators.interface": "no requests",
    "sugarbush.rehearsal.preflight": "requests planned from settings and donated texts",
}

# Modules that call `PrivacySession(...)`. A session on the records of a project or of `sb.prepare`
# comes from `PrivateCorpus.session`, which knows how many records of a user there are.
BUILDS_SESSIONS: dict[str, str] = {
    "sugarbush.data.private_store": "the session on prepared records: `PrivateCorpus.session`",
    "sugarbush.api.ledgers": "values of the caller, with the caller's `records_per_unit`",
    "sugarbush.profiling.requests": "a profile: one record of each unit, before stage prepare",
    "sugarbush.api.training": "texts of the caller, one record per unit",
    "sugarbush.audits.mechanism_runs": "canaries of an audit, on a temporary ledger",
    "sugarbush.methods.crt": "confidential training: a separate ledger, unit record only",
    "sugarbush.methods.nonprivate": "no noise, charged as not private",
}

# Modules that read the elements of a `Private` value.
OPENS_PRIVATE: dict[str, str] = {
    "sugarbush.privacy.data_types": "the class itself",
    "sugarbush.privacy.mechanisms": "mechanisms: they add noise",
    "sugarbush.privacy.distances": "mechanisms: they add noise",
    "sugarbush.tables.marginal_measurer": "marginals of AIM: it adds noise",
    "sugarbush.training.dpsgd.sampling": "secret batches of DP-SGD",
    "sugarbush.training.dpsgd.data": "an exact count of cut texts, which stays internal",
    "sugarbush.training.dpsgd.ordinary": "training without noise, charged as not private",
    "sugarbush.training.crt.train": "confidential training: its own ledger",
    "sugarbush.training.crt.screening": "screening for confidential training",
    "sugarbush.data.private_store": "writes private files, and opens real texts for metrics",
}

# Modules that open real texts, which stay internal.
OPENS_REAL_TEXTS: dict[str, str] = {
    "sugarbush.data.private_store": "defines it",
    "sugarbush.pipeline.stages.evaluate": "metrics: reports/internal",
    "sugarbush.pipeline.stages.report": "the internal page",
    "sugarbush.pipeline.stages.audit": "attacks on public data: reports/internal",
    "sugarbush.audits.method_audit": "attacks on public data",
    "sugarbush.methods.nonprivate": "charged as not private; stays in the private root",
    "sugarbush.pipeline.in_memory": "metrics of the API, which says that they are not DP",
}

# Modules that use the path of private records or codes.
NAMES_PRIVATE_FILES: dict[str, str] = {
    "sugarbush.data.private_store": "reads and writes them",
    "sugarbush.pipeline.stages.fingerprint": "asks whether they exist",
    "sugarbush.pipeline.stages.extract_metadata": "writes their stamps",
}

# Modules that open files of other file systems, or databases.
OPENS_REMOTE_FILES: dict[str, str] = {
    "sugarbush.data.remote": "the private file that prepare.file names; read, never written",
    "sugarbush.publication.upload": "a published folder, which is DP; written, never read",
    "sugarbush.data.formats.databases": "the private table that the settings name; read only",
}
