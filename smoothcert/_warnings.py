"""Categories of warnings, so that each can be silenced by itself, and where they point to."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

_PACKAGE = str(Path(__file__).parent)


class LongRunWarning(UserWarning):
    """A call is expected to take more than a minute.

    The message contains the expected time and ways to reduce it. It is issued once in a call of `certify` or `predict`,
    in the main process only, and not with ``verbose=1``, where the progress bar shows the remaining time.

    Examples
    --------
    >>> import warnings
    >>> from smoothcert import LongRunWarning
    >>> warnings.simplefilter("ignore", LongRunWarning)  # where long runs are expected
    """


class RadiusSpaceWarning(UserWarning):
    """Radii are not in the units of `X`: it is not known by how much a step before the smoothed classifier stretches
    distances.

    They are about the output of that step, which ``certificates.space`` names. With ``space="smoothed"`` that is what
    was asked for, and there is no warning.
    """


class UnaskedRadiusWarning(UserWarning):
    """Certificates are used at radii that were not asked for.

    ``certify(X, radius=0.5)`` stops sampling as soon as it is decided whether an input is certified at 0.5. Results at
    other radii are valid, but all samples would have certified more inputs there.
    """


class UnreachableRadiusWarning(UserWarning):
    """No input can be certified at a radius that was asked for: it is too large for `sigma` and `n_samples`.

    Even if all votes for an input agree, the probability of its class is only known to be close to one, which proves a
    radius of a few times `sigma`.
    """


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside of this package from which it was called."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level + 1)
