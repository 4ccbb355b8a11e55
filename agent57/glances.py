"""Descriptions of the latest step of a few lanes, for viewers. Nothing here changes a run."""

import base64
from typing import Any

import numpy as np
import torch

from agent57.ops.family import betas, gammas
from agent57.ops.td import mixed_values, target_policy
from agent57.player import Player
from agent57.types import Played


def glances(player: Player, count: int) -> list[dict[str, Any]]:
    """Describe the latest step of the first `count` lanes, in plain containers.

    The list is empty before the first step. No environment moves and no random stream is read.
    """
    played = player.played
    if played is None:
        return []
    policy = distilled_policy(player, played)
    beta = torch.from_numpy(betas(player.config.family)[played.arm]).float()
    mixed = mixed_values(torch.from_numpy(played.value), beta, player.config).numpy()
    best = (mixed if policy is None else policy).argmax(1)
    return [
        {
            **_glance(player, played, lane),
            "best_action": int(best[lane]),
            "policy": None if policy is None else policy[lane].tolist(),
        }
        for lane in range(min(count, player.env.num_lanes))
    ]


def distilled_policy(player: Player, played: Played) -> np.ndarray | None:
    """Return the probabilities [E, A] of the distilled policy; None if the values act."""
    logits = None if played.logits is None else torch.from_numpy(played.logits)
    policy = target_policy(logits, player.config.learner)
    return None if policy is None else policy.numpy()


def _glance(player: Player, played: Played, lane: int) -> dict[str, Any]:
    arm, spec = int(played.arm[lane]), player.env.spec
    factors = {} if player.curiosity is None else player.curiosity.last
    told: dict[str, Any] = {
        "lane": player.first_lane + lane,
        "episode": int(player.num_begun[lane]),
        "steps": int(player.totals.length[lane]),
        "score": float(player.totals.extrinsic[lane]),
        "arm": arm,
        "beta": float(betas(player.config.family)[arm]),
        "gamma": float(gammas(player.config.family)[arm]),
        "epsilon": float(player.epsilon[lane]),
        "action": int(played.action[lane]),
        "action_names": list(spec.action_names),
        "networks": list(player.config.value_names),
        "values": played.value[:, lane].tolist(),
        **{
            name: float(factors[name][lane]) if name in factors else None
            for name in ("novelty", "modulation")
        },
    }
    record = player.env.running_episode(lane)
    if record is None:
        return {**told, "picture": player.env.render(lane).tolist()}
    dtype = np.dtype("uint8" if spec.num_actions <= 256 else "int32")
    actions = base64.b64encode(record.actions.astype(dtype).tobytes()).decode()
    return {**told, "seed": record.seed, "dtype": dtype.name, "actions": actions}
