"""Arithmetic and memory of a configuration's networks, counted without computing anything.

The networks are built and run on torch's `meta` device, which has shapes but no data. So counting
takes a fraction of a second and no memory, at any size.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from agent57.config import Config
from agent57.nets.networks import Embedding, make_networks
from agent57.types import EnvSpec

META = torch.device("meta")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Sizes of one agent for one task."""

    weight_bytes: int  # all networks, as actors hold them
    embedding_bytes: int  # the embedding network, of which an actor holds several versions
    trained_bytes: int  # the weights that have a gradient
    target_bytes: int  # the target networks, which are copies of the value networks
    act_flops: int  # one step of one lane
    update_flops: int  # one update
    activation_bytes: int  # activations that an update keeps for its backward pass
    batch_bytes: int  # the observations of one batch, before they are prepared
    state_bytes: int  # the recurrent state stored with each block


def count_sizes(config: Config, spec: EnvSpec) -> Sizes:
    """Count the networks of a configuration for a task."""
    with META:
        networks = make_networks(config, spec)
        dtype = getattr(torch, spec.observation_dtype)
        observation = networks.prepare(torch.zeros(1, 1, *spec.observation_shape, dtype=dtype))
        number, index = torch.zeros(1, 1), torch.zeros(1, 1, dtype=torch.int64)
        state = torch.zeros(networks.num_cores, 2, 1, networks.state_size)

    def values() -> Tensor:
        q, _ = networks.value(observation, index, number, number, index[0], state)
        return q.sum()

    kept: dict[int, int] = {p.untyped_storage()._cdata: 0 for p in networks.parameters()}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept.setdefault(storage._cdata, storage.nbytes())
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        forward, backward = _flops(values)
    act_flops, novelty_flops, embed_flops, embedding_bytes = forward, 0, 0, 0
    trained: list[nn.Module] = [networks.value]
    embedding, rnd, frames = networks.embedding, networks.rnd, observation[0]
    if embedding is not None and rnd is not None:
        trained += [embedding, rnd.predictor]
        embedding_bytes = _bytes(embedding)
        act_flops += _flops(lambda: embedding(frames).sum())[0]
        act_flops += _flops(lambda: rnd(frames).sum())[0]
        embed_flops = sum(_flops(lambda: embedding(frames).sum()))
        novelty_flops = sum(_flops(lambda: _recognised(embedding, frames)))
        novelty_flops += sum(_flops(lambda: rnd(frames).sum()))
    batch_size, rows = config.learner.batch_size, config.sequence.window_length + 1
    num_novel = min(config.learner.novelty_steps, rows - 1)
    return Sizes(
        weight_bytes=_bytes(networks),
        embedding_bytes=embedding_bytes,
        trained_bytes=sum(_bytes(module) for module in trained),
        target_bytes=_bytes(networks.value),
        act_flops=act_flops,
        update_flops=batch_size
        * (rows * (2 * forward + backward) + num_novel * novelty_flops + embed_flops),
        activation_bytes=batch_size * rows * sum(kept.values()),
        batch_bytes=batch_size * rows * spec.observation_bytes,
        state_bytes=networks.num_cores * 2 * networks.state_size * 4,
    )


def _recognised(embedding: Embedding, frames: Tensor) -> Tensor:
    """Return the sum of the action logits of frames that are embedded once."""
    embedded = embedding(frames)
    return embedding.action_logits(embedded, embedded).sum()


def _flops(loss: Callable[[], Tensor]) -> tuple[int, int]:
    """Count the floating-point operations of a loss, forward and backward."""
    with FlopCounterMode(display=False) as forward:
        value = loss()
    with FlopCounterMode(display=False) as backward:
        value.backward()
    return forward.get_total_flops(), backward.get_total_flops()


def _bytes(module: nn.Module) -> int:
    tensors = (*module.parameters(), *module.buffers())
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
