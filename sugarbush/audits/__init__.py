"""What an attacker who holds the model can tell. On benchmarks; a failed attack proves nothing."""
