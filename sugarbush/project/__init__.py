"""Creates, checks, runs and budgets a project. Returns what it finds, and prints nothing."""
