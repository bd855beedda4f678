"""One module a stage, of the name that dvc.yaml gives it: read, call, write. Beside them:

how a stage starts and ends     stage, leash, forced, where_needed, processes
before anything is spent        readiness, budget, training
what is read and left           reading, records, pool, labelled, private_files, release, texts,
                                dp_table, file_digests, state
who writes, labels, embeds      generator, labeller, encoder, device, confidential_start
comparisons, which are no stage sweep, sweep_table, trained_metrics, leakage, leakage_points,
                                leakage_page
shared by evaluate and those    yardstick
"""

from tasks.leash import die_with_dvc

# Here, because the imports of a stage take seconds in which DVC may already be gone.
die_with_dvc()
