"""NGU's episodic novelty of a state, from its distances to the nearest memories."""

import numpy as np
from jaxtyping import Float, Float32

from agent57.config import CuriosityConfig


def least_novelty(config: CuriosityConfig) -> np.float32:
    """The novelty of a state whose K neighbours are all within the cluster distance: 1 / s(0).

    A smaller reward needs s > s_m, which is impossible if s_m >= sqrt(K) + c.
    """
    return np.float32(1 / (np.sqrt(config.neighbours) + config.pseudo_count))


def kernel_novelty(
    distance_sq: Float[np.ndarray, "E K"],
    mean_distance_sq: Float[np.ndarray, "E"],
    config: CuriosityConfig,
) -> Float32[np.ndarray, "E"]:
    """The novelty of each state: its distance from its K nearest memories (NGU, algorithm 1).

        d_k = max(distance_k^2 / d_m^2 - xi, 0)
        s   = sqrt(sum_k eps / (d_k + eps)) + c
        r   = 1 / s, or 0 if s > s_m

    `mean_distance_sq` is the running mean d_m^2, these distances included. A neighbour that does
    not exist is infinitely far, and adds nothing. A state without any memory to compare with earns
    nothing: the bare formula would pay it 1 / c, more than any other state.
    """
    scale = np.where(mean_distance_sq > 0, mean_distance_sq, 1.0).astype(np.float64)
    relative = np.maximum(distance_sq / scale[:, None] - config.cluster_distance, 0.0)
    kernel = config.kernel_epsilon / (relative + config.kernel_epsilon)
    similarity = np.sqrt(kernel.sum(1)) + config.pseudo_count
    is_known = np.isfinite(distance_sq).any(1) & (similarity <= config.max_similarity)
    return np.where(is_known, 1 / similarity, 0.0).astype(np.float32)
