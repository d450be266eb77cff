"""Latencies of known distribution, as awkward as measured ones: correlated, of unlike repetitions, long-tailed."""

import math
from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

Model = Callable[[np.random.Generator, int, int], np.ndarray]


def correlated(rng: np.random.Generator, repetitions: int, messages: int, correlation: float) -> np.ndarray:
    """Standard normal values, one row a repetition, each message like the one before."""
    values = rng.normal(0, 1, (repetitions, messages))
    for k in range(1, messages):
        values[:, k] = correlation * values[:, k - 1] + math.sqrt(1 - correlation**2) * values[:, k]
    return values


def lognormal(own_sd: float, sd: float, correlation: float) -> Model:
    """Return a model: a repetition's own level, and around it messages that resemble the one before."""

    def model(rng: np.random.Generator, repetitions: int, messages: int) -> np.ndarray:
        own = rng.normal(0, own_sd, (repetitions, 1)) if own_sd else 0.0
        return 900 * np.exp(own + sd * correlated(rng, repetitions, messages, correlation))

    return model


def bursts(rng: np.random.Generator, repetitions: int, messages: int) -> np.ndarray:
    """A low level, and bursts of delays with a Pareto tail whose rate is each repetition's own: as under stress."""
    rate = rng.gamma(2, 0.03, (repetitions, 1))
    cut = ndtri(1 - np.minimum(rate, 0.99))
    hit = correlated(rng, repetitions, messages, 0.6) > cut
    level = 700 * np.exp(rng.normal(0, 0.05, (repetitions, 1)) + rng.normal(0, 0.15, (repetitions, messages)))
    return level + hit * 2000 * (rng.pareto(1.8, (repetitions, messages)) + 0.2)


def two_levels(rng: np.random.Generator, repetitions: int, messages: int) -> np.ndarray:
    """One interval's wait or two, as with delayed acknowledgements."""
    share = np.clip(rng.normal(0.5, 0.1, (repetitions, 1)), 0.05, 0.95)
    shape = (repetitions, messages)
    level = np.where(rng.random(shape) < share, rng.normal(20900, 600, shape), rng.normal(41000, 500, shape))
    return level + rng.normal(0, 300, (repetitions, 1))


def own_tails(rng: np.random.Generator, repetitions: int, messages: int) -> np.ndarray:
    """Each repetition has a tail of its own, strongly correlated within: the hardest."""
    own = rng.normal(6, 0.5, (repetitions, 1))
    return 700 + np.exp(own + 0.9 * correlated(rng, repetitions, messages, 0.7))


def rare_level(rng: np.random.Generator, repetitions: int, messages: int) -> np.ndarray:
    """A second level, ten times as high, of one message or two in a hundred."""
    hit = rng.random((repetitions, messages)) < rng.gamma(3, 0.005, (repetitions, 1))
    low = 900 * np.exp(rng.normal(0, 0.03, (repetitions, 1)) + rng.normal(0, 0.2, (repetitions, messages)))
    return np.where(hit, rng.normal(9000, 1500, (repetitions, messages)), low)


def coarse(rng: np.random.Generator, repetitions: int, messages: int) -> np.ndarray:
    """One message in seven waits 40 ms for an acknowledgement; times are read to 0.1 ms."""
    wait = 40_000 * (rng.random((repetitions, messages)) < rng.beta(12, 68, (repetitions, 1)))
    return np.round((wait + 1100 * np.exp(rng.normal(0, 0.15, (repetitions, messages)))) / 100) * 100


MODELS: dict[str, Model] = {
    "calm": lognormal(0.05, 0.3, 0.5),
    "restless": lognormal(0.2, 0.5, 0.5),
    "bursts": bursts,
    "two_levels": two_levels,
    "independent": lognormal(0, 0.3, 0),
    "own_tails": own_tails,
}
# Those on which no method was chosen.
HELD_OUT: dict[str, Model] = {
    # Repetitions that differ by more than their messages do: quantiles are those of a few repetitions.
    "runs_apart": lognormal(0.5, 0.3, 0.3),
    "rare_level": rare_level,
    "coarse": coarse,
    # Each message is nearly as slow as the one before.
    "sticky": lognormal(0.05, 0.4, 0.95),
}


def truth(model: Model, shares: list[float]) -> np.ndarray:
    """Mean and quantiles of very many repetitions."""
    values = model(np.random.default_rng(99), 20_000, 100).ravel()
    return np.array([values.mean(), *np.quantile(values, shares)])
