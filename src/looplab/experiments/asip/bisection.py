"""The search for the highest frequency that is copied."""


class Bisection:
    """Halves the range between a frequency that was copied and one that was not.

    The lowest frequency comes first: if it is not copied, there is nothing to search. The highest is taken for too high
    until the search has come close to it.
    """

    def __init__(self, low_hz: float, high_hz: float, resolution: float) -> None:
        self._low_hz, self._high_hz, self._resolution = low_hz, high_hz, resolution
        self._low_known = self._high_known = self._none = False

    def next_hz(self) -> float | None:
        """Return the next frequency to try, None when the search is over."""
        if self._none:
            return None
        if not self._low_known:
            return self._low_hz
        if self._high_hz - self._low_hz > self._resolution * self._high_hz:
            return (self._low_hz + self._high_hz) / 2
        return None if self._high_known else self._high_hz

    def found(self, frequency_hz: float, tracked: bool) -> None:
        """Note whether the frequency that was tried was copied."""
        if tracked:
            self._low_hz, self._low_known = frequency_hz, True
            self._high_known = self._high_known or frequency_hz >= self._high_hz
        else:
            self._high_hz, self._high_known = frequency_hz, True
            self._none = not self._low_known
