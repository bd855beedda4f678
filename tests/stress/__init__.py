"""Kills at random moments, a full disk, no network and a clock that goes back: `make stress`."""
