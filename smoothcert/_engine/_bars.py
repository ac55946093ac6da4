"""Progress bars, of samples or of inputs."""

from __future__ import annotations

from typing import Any

from tqdm.auto import tqdm

from ._progress import Progress


def bar_of(progress: Progress) -> Any:
    """Return the bar that shows how far a run is, still at its beginning."""
    return InputBar(progress) if progress.by_looks else SampleBar(progress)


class SampleBar(tqdm):
    """Samples, their rate and the time left."""

    def __init__(self, progress: Progress) -> None:
        total = progress.n_rows * progress.samples_per_row
        super().__init__(total=total, desc=progress.name, unit=" samples", unit_scale=True)

    def resume(self, samples: int) -> None:
        """Count samples that were drawn before: they are done, but not in the rate, which comes from differences."""
        self.n += samples
        self.initial += samples
        self.last_print_n += samples
        self.refresh()


class InputBar(tqdm):
    """Inputs that are decided, samples, and the time left.

    Inputs come in bursts, at the looks, and the last ones take most samples. So the time left is that of the samples
    that will probably be drawn.
    """

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self._waited = 0.0  # seconds until samples were drawn
        count = "{n_fmt}/{total_fmt} inputs decided [{elapsed}<{time_left}, {samples} samples]"
        # With miniters=0 the time left is shown also while no input is decided.
        super().__init__(
            total=progress.n_rows,
            desc=progress.name,
            bar_format="{desc}: {percentage:3.0f}%|{bar}| " + count,
            miniters=0,
        )

    @property
    def format_dict(self) -> dict[str, Any]:
        """What `bar_format` can show."""
        known: dict[str, Any] = super().format_dict
        progress = self.progress
        left = 0.0 if progress.decided == progress.n_rows else progress.samples_left
        if left and not progress.drawn:
            time_left = "?"
        else:
            drawing = known["elapsed"] - self._waited
            time_left = tqdm.format_interval(drawing * left / max(progress.drawn, 1))
        return {**known, "time_left": time_left, "samples": tqdm.format_sizeof(progress.done)}

    def resume(self, samples: int) -> None:
        """Show samples that were drawn before, without counting the time in which they were read."""
        if not self.progress.drawn:
            self._waited = super().format_dict["elapsed"]
        self.refresh()
