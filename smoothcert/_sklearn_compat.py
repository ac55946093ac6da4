"""Every name that scikit-learn does not document, imported in one place.

A new release of scikit-learn that moves one of them is mended here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils.metadata_routing import _routing_enabled as routing_enabled
from sklearn.utils.validation import _num_samples as num_samples

__all__ = ["BaseSearchCV", "input_columns", "num_samples", "routing_enabled", "safe_indexing"]


def input_columns(transformer: Any, name: str) -> NDArray[np.intp]:
    """Return the numbers of the columns that one part of a fitted ColumnTransformer is given."""
    return np.asarray(transformer._transformer_to_input_indices[name], dtype=np.intp)
