"""A form in the browser, `sugarbush app`: the same files, functions and commands as the terminal.

Each step writes params.yaml or the schema with the functions of the commands, or starts a command
of `sugarbush` in a child process. The form itself opens no private data.
"""
