from hypothesis import settings

# Deterministic, so that a red run can be repeated; no deadline, because machines differ.
settings.register_profile("smoothcert", deadline=None, derandomize=True, max_examples=100)
settings.load_profile("smoothcert")
