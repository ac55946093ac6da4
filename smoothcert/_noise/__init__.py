"""Where noise is drawn: its seeds, and the arrays it is drawn into.

`_torch` draws for nets; it is imported by what needs it, since it imports torch.
"""

from __future__ import annotations

from ._design import moved_into_strata
from ._error_share import check_error_share, lower_level
from ._grid import Grid, make_grid
from ._numpy import NumpyArrays
from ._seeds import (
    ESTIMATION,
    LOOKS,
    PILOT,
    SCREEN,
    SELECTION,
    VOTE,
    Seed,
    block_size,
    block_slices,
    hash_row,
    pilot_stage,
    seed_for_purpose,
    seed_from,
)

__all__ = [
    "ESTIMATION",
    "LOOKS",
    "PILOT",
    "SCREEN",
    "SELECTION",
    "VOTE",
    "Grid",
    "NumpyArrays",
    "Seed",
    "block_size",
    "block_slices",
    "check_error_share",
    "hash_row",
    "lower_level",
    "make_grid",
    "moved_into_strata",
    "pilot_stage",
    "seed_for_purpose",
    "seed_from",
]
