"""Categories of warnings, so that each can be silenced by itself, and where they point to."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

_PACKAGE = str(Path(__file__).parent)


class LongRunWarning(UserWarning):
    """A call is expected to take more than a minute.

    The message has the estimate and says how to shorten the run. It comes once in a call of `certify` or `predict`, in
    the main process only, and not with ``verbose=1``, where the progress bar shows the time left.

    Examples
    --------
    >>> import warnings
    >>> from smoothcert import LongRunWarning
    >>> warnings.simplefilter("ignore", LongRunWarning)  # where long runs are expected
    """


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside of this package from which it was called."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level + 1)
