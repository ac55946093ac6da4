"""What a base model must offer: one adapter for each kind of base."""
