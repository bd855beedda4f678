"""Units, kinds of data, events, accounting, the ledger and the one source of noise."""
