"""Numbers with their units, in words for a person."""


def show_duration(seconds: float) -> str:
    """Return a duration for a person: 7 s, 2 min 05 s."""
    rounded = round(seconds)
    return f"{rounded} s" if rounded < 60 else f"{rounded // 60} min {rounded % 60:02d} s"


def plural(number: int, noun: str) -> str:
    """Return a count with its noun: 1 run, 2 runs."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
