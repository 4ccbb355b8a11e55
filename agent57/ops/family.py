"""The family of policies: beta_j and gamma_j of each arm, epsilon_l of each lane."""

import numpy as np
from jaxtyping import Float64, Int

from agent57.config import FamilyConfig


def betas(config: FamilyConfig) -> Float64[np.ndarray, "J"]:
    """Weight of the intrinsic reward of each arm, rising from 0 (the paper, appendix G.1).

    beta_0 = 0,  beta_{N-1} = beta,  beta_j = beta sigmoid(10 (2 j - (N-2)) / (N-2))
    """
    if config.betas:
        return np.array(config.betas, dtype=np.float64)
    last = config.arms - 1
    curve = np.zeros(config.arms)
    if last > 0:
        curve[1:last] = config.max_beta * _steps(np.arange(1, last), config.arms - 2)
        curve[last] = config.max_beta
    return curve


def gammas(config: FamilyConfig) -> Float64[np.ndarray, "J"]:
    """Discount of each arm, never rising, from `max_gamma` to `min_gamma`."""
    if config.gammas:
        return np.array(config.gammas, dtype=np.float64)
    if config.discounts == "ngu":
        return _log_linear(config.max_gamma, config.min_gamma, config.arms)
    return _agent57_gammas(config)


def _agent57_gammas(config: FamilyConfig) -> np.ndarray:
    """The paper's curve (appendix G.1): a sigmoid to gamma_1 at arm m, then log-linear in 1-gamma.

        gamma_j = gamma_0 + (gamma_1 - gamma_0) sigmoid(10 (2 j - (m-1)) / (m-1))      0 < j < m
        log(1 - gamma_j) = ((K - k) log(1 - gamma_1) + k log(1 - gamma_2)) / K             j > m
        k = j - m - 1,  K = N - 2 - m

    paper: both branches are misprinted so that gamma rises with j; we: falling, as its text says.
    paper: m = 7, for N = 32; we: m scales with N, so that any N gets a curve that ends at gamma_2.
    """
    first, middle, last = config.max_gamma, config.middle_gamma, config.min_gamma
    num_arms = config.arms
    if num_arms <= 3:
        return np.array([[first], [first, last], [first, middle, last]][num_arms - 1])
    m = min(max(round(7 * (num_arms - 1) / 31), 1), num_arms - 3)
    curve = np.empty(num_arms)
    curve[0] = first
    curve[1:m] = first + (middle - first) * _steps(np.arange(1, m), m - 1)
    curve[m] = middle
    curve[m + 1 :] = _log_linear(middle, last, num_arms - m - 1)
    return curve


def lane_epsilons(
    epsilon: float, alpha: float, lanes: Int[np.ndarray, "E"], num_lanes: int
) -> Float64[np.ndarray, "E"]:
    """epsilon_l = epsilon^(1 + alpha l / (L - 1)) of the given lanes out of L (Ape-X).

    A single lane plays with `epsilon` itself.
    """
    return epsilon ** (1 + alpha * lanes / max(num_lanes - 1, 1))


def annealed(
    epsilon: Float64[np.ndarray, "E"], num_steps: int, anneal_steps: int
) -> Float64[np.ndarray, "E"]:
    """Epsilons after `num_steps` steps of a run: 1 at first, `epsilon` from `anneal_steps` on.

    The way between them is a straight line, as in DQN (Mnih et al., 2015).
    """
    left = max(0.0, 1 - num_steps / anneal_steps) if anneal_steps else 0.0
    return epsilon + left * (1 - epsilon)


def _steps(index: np.ndarray, span: int) -> np.ndarray:
    """sigmoid(10 (2 j - span) / span)."""
    return 1 / (1 + np.exp(-10 * (2 * index - span) / span))


def _log_linear(first: float, last: float, num_arms: int) -> np.ndarray:
    """Discounts from `first` to `last`, with log(1 - gamma) equally spaced (NGU, equation 4)."""
    exponents = np.linspace(np.log(1 - first), np.log(1 - last), num_arms)
    curve = 1 - np.exp(exponents)
    curve[-1] = last
    curve[0] = first
    return curve
