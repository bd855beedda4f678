"""One module a stage: read, call, write."""

from tasks.leash import die_with_dvc

# Here, because the imports of a stage take seconds in which DVC may already be gone.
die_with_dvc()
