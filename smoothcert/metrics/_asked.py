"""What certificates can say if they were asked about certain radii only."""

from __future__ import annotations

from collections.abc import Iterable

from .._certificates import Certificates
from .._warnings import UnaskedRadiusWarning, warn_user


def warn_if_not_asked(
    what: str, certificates: Iterable[Certificates], radii: Iterable[float] | None = None, fault: str = "too low"
) -> None:
    """Warn if something is computed from radii that certificates were not asked about.

    Parameters
    ----------
    what : str
        What is computed, as the subject of a sentence.
    certificates : iterable of Certificates
    radii : iterable of float, optional
        Radii that are all it depends on; by default it depends on how far each input is certified.
    fault : str
        What is wrong with it then.
    """
    for each in certificates:
        if each.asked_radii is None or (radii is not None and set(radii) <= set(each.asked_radii)):
            continue
        asked = ", ".join(f"{radius:g}" for radius in each.asked_radii)
        warn_user(
            f"{what} may be {fault}: these certificates were computed with radius={asked}, and sampling stopped as "
            "soon as it was clear whether an input is certified at this radius. Use certified_accuracy_score at one of "
            "these radii, call certify with other radii, or call certify without radius.",
            UnaskedRadiusWarning,
        )
        return
