"""A writer of customer-service dialogues and tickets, without a model, a key or a download."""
