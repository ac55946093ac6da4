"""Every name that scikit-learn does not document, imported in one place.

A new release of scikit-learn that moves one of them is mended here.
"""

from __future__ import annotations

from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils.metadata_routing import _routing_enabled as routing_enabled
from sklearn.utils.validation import _num_samples as num_samples

__all__ = ["BaseSearchCV", "num_samples", "routing_enabled", "safe_indexing"]
