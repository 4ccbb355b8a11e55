"""Exports the networks of a trained run, without everything that only training needs.

The result is a run folder that `agent57.load` and `agent57 evaluate` accept. It has no replay, no
optimiser and no records, so it cannot be resumed.
"""

import io
import json
from pathlib import Path
from typing import Any

import torch

from agent57.config import to_dict
from agent57.storage.checkpoint import newest_state
from agent57.storage.files import write_atomic
from agent57.storage.folder import CHECKPOINTS, CONFIG_FILE, read_config
from agent57.storage.manifest import write_file, write_manifest
from agent57.trained.trained_run import evaluator_state

NAME = "000000000001"


def export_weights(run: Path, out: Path) -> int:
    """Write a run's networks in half precision, and its evaluator's bandit and novelty scales.

    Return the size of the file in bytes.
    """
    config, (state, _) = read_config(run), newest_state(run / CHECKPOINTS)
    evaluator = evaluator_state(state["parts"])
    kept = {
        "config": state["config"],
        "counters": state["counters"],
        "parts": {
            "learner": {"networks": _halved(state["parts"]["learner"]["networks"])},
            "evaluator": {
                "controller": evaluator["controller"],
                "player": {"curiosity": _scales(evaluator["player"]["curiosity"])},
            },
        },
    }
    buffer = io.BytesIO()
    torch.save(kept, buffer)
    folder = out / CHECKPOINTS
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(out / CONFIG_FILE, json.dumps(to_dict(config), indent=2).encode())
    entry = write_file(folder / f"{NAME}.state", [buffer.getbuffer()])
    write_manifest(
        folder / f"{NAME}.json",
        {"counters": state["counters"], "state": entry, "segments": []},
    )
    return int(entry["bytes"])


def _halved(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return weights in half precision, except moments of observations, which may overflow."""
    return {
        name: weight.half() if weight.is_floating_point() and "standard." not in name else weight
        for name, weight in weights.items()
    }


def _scales(curiosity: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the running scales of the novelty, without the running episode."""
    if curiosity is None:
        return None
    memory = {name: curiosity["memory"][name] for name in ("distance_sum", "distance_count")}
    scales = {name: state for name, state in curiosity.items() if name in ("moments", "scale")}
    return {"memory": memory, **scales}
