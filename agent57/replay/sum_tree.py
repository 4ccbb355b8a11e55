"""Sums over a binary tree: draws leaves in proportion to their weights in logarithmic time."""

import numpy as np

_FEW_LEAVES = 4  # up to here a plain loop is faster than array operations


class SumTree:
    """Non-negative float64 weights on `num_leaves` leaves, a power of two.

    Node i has children 2i and 2i + 1, the root is 1, leaf j is node num_leaves + j. Each inner node
    is always recomputed from its children, so no rounding error can build up.
    """

    def __init__(self, num_leaves: int) -> None:
        if num_leaves < 1 or num_leaves & (num_leaves - 1):
            raise ValueError(f"num_leaves must be a power of two, got {num_leaves}")
        self._nodes = np.zeros(2 * num_leaves)
        self._num_leaves = num_leaves
        self._depth = num_leaves.bit_length() - 1

    @property
    def num_leaves(self) -> int:
        """Number of leaves."""
        return self._num_leaves

    @property
    def num_bytes(self) -> int:
        """Memory of the nodes."""
        return self._nodes.nbytes

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return float(self._nodes[1])

    @property
    def weights(self) -> np.ndarray:
        """The weights of all leaves, read-only."""
        view = self._nodes[self._num_leaves :]
        view.flags.writeable = False
        return view

    def set(self, leaves: np.ndarray, weights: np.ndarray) -> None:
        """Write the weights of some leaves; of a leaf named twice, the later one stays."""
        nodes = np.asarray(leaves, np.int64) + self._num_leaves
        self._nodes[nodes] = weights
        if len(nodes) <= _FEW_LEAVES:
            for node in nodes.tolist():
                while node > 1:
                    node >>= 1
                    self._nodes[node] = self._nodes[2 * node] + self._nodes[2 * node + 1]
            return
        for _ in range(self._depth):
            nodes = nodes >> 1
            self._nodes[nodes] = self._nodes[2 * nodes] + self._nodes[2 * nodes + 1]

    def assign(self, weights: np.ndarray) -> None:
        """Write the weights of all leaves."""
        self._nodes[self._num_leaves :] = weights
        for level in range(self._depth - 1, -1, -1):
            children = self._nodes[2 << level : 4 << level]
            self._nodes[1 << level : 2 << level] = children[0::2] + children[1::2]

    def find(self, fractions: np.ndarray) -> np.ndarray:
        """For each fraction f in [0, 1), the leaf where the running sum of weights passes f total.

        A leaf of weight zero is never found.
        """
        if not self.total > 0:
            raise ValueError("a sum tree without weight has nothing to find")
        remaining = np.asarray(fractions, np.float64) * self.total
        nodes = np.ones(len(remaining), np.int64)
        for _ in range(self._depth):
            left = self._nodes[2 * nodes]
            # Rounding may leave a remainder past the end: stay where there is weight.
            goes_right = (remaining >= left) & (self._nodes[2 * nodes + 1] > 0)
            remaining = np.where(goes_right, remaining - left, remaining)
            nodes = 2 * nodes + goes_right
        return nodes - self._num_leaves
