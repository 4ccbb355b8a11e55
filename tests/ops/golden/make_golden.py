"""Writes the golden numbers of this folder with rlax, in float64.

The tests do not run this script; they only read the JSON. To write the numbers again:

    python3.11 -m venv /tmp/rlax && /tmp/rlax/bin/pip install rlax==0.1.9
    /tmp/rlax/bin/python tests/ops/golden/make_golden.py
"""

import json
import pathlib

import jax
import numpy as np
import rlax
from rlax._src.exploration import IntrinsicRewardState

jax.config.update("jax_enable_x64", True)

FOLDER = pathlib.Path(__file__).parent
ROWS, WINDOWS, ACTIONS = 9, 4, 5
LAMBDA = 0.95


def write(name: str, case: dict[str, object]) -> None:
    """Save arrays as nested lists, with every digit of float64."""
    plain = {key: np.asarray(value).tolist() for key, value in case.items()}
    (FOLDER / f"{name}.json").write_text(json.dumps(plain) + "\n")


def retrace_case(rng: np.random.Generator, scale: float) -> dict[str, np.ndarray]:
    """Return random windows, time-major, with a termination inside some of them."""
    rows, windows, actions = ROWS, WINDOWS, ACTIONS
    discount = 0.97 * (rng.random((rows, windows)) < 0.85)
    return {
        "reward": scale * rng.normal(size=(rows, windows)),
        "discount": discount,
        "online": scale * rng.normal(size=(rows + 1, windows, actions)),
        "target": scale * rng.normal(size=(rows + 1, windows, actions)),
        "policy": rng.dirichlet(np.ones(actions), size=(rows + 1, windows)),
        "action": rng.integers(actions, size=(rows, windows)),
        "action_prob": rng.uniform(0.05, 0.95, size=(rows, windows)),
    }


def retrace_errors(case: dict[str, np.ndarray], pair: rlax.TxPair) -> np.ndarray:
    """Return the TD errors of each window; the last action and probability are unused."""
    unused = np.zeros((1, WINDOWS), dtype=np.int64)

    def one_window(*window: jax.Array) -> jax.Array:
        return rlax.transformed_retrace(*window, lambda_=LAMBDA, eps=0.0, tx_pair=pair)

    return jax.vmap(one_window, in_axes=1, out_axes=1)(
        case["online"][:-1],
        case["target"][1:],
        case["action"],
        np.concatenate([case["action"][1:], unused]),
        case["reward"],
        case["discount"],
        case["policy"][1:],
        np.concatenate([case["action_prob"][1:], unused + 0.5]),
    )


def novelty_case(rng: np.random.Generator, slots: int) -> dict[str, object]:
    """Score a walk state by state, after K states that are only remembered.

    The embeddings are large, because rlax subtracts its `constant` from the running mean.
    """
    neighbours, size, steps = 10, 6, 40
    walk = 100 * rng.normal(size=(neighbours + steps, size)).cumsum(0)
    walk[25] = walk[20]  # a state met again
    memory = np.full((slots, size), np.inf)
    memory[:neighbours] = walk[:neighbours]
    state = IntrinsicRewardState(memory=memory, next_memory_index=neighbours)
    novelty = []
    for embedding in walk[neighbours:]:
        reward, state = rlax.episodic_memory_intrinsic_rewards(
            embedding[None], neighbours, 1.0, state, max_memory_size=slots
        )
        novelty.append(reward[0])
    return {"slots": slots, "first": walk[:neighbours], "walk": walk[10:], "novelty": novelty}


def main() -> None:
    """Write every case."""
    rng = np.random.default_rng(0)
    for name, pair, scale in [
        ("retrace", rlax.IDENTITY_PAIR, 1.0),
        ("transformed_retrace", rlax.SIGNED_HYPERBOLIC_PAIR, 10.0),
    ]:
        case = retrace_case(rng, scale)
        write(name, {**case, "lambda": LAMBDA, "td_error": retrace_errors(case, pair)})
    write("novelty", novelty_case(rng, slots=1000))
    write("novelty_full_memory", novelty_case(rng, slots=17))


if __name__ == "__main__":
    main()
