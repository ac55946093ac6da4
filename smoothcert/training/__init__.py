"""Noise in training: the base model should see what it will vote on."""
