"""Contains the functions of the Python API, one module per task.

The functions run the same code as the stages of the pipeline, and charge the same ledger.
`sugarbush` publishes their names.
"""
