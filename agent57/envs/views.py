"""Converts observations and actions of Gymnasium spaces to those of the agent, and back.

Images become planes of bytes. Everything else becomes a vector of float numbers. If a space has
several parts, images go to the convolutions, and the other parts are numbers beside the image.
Nothing is dropped silently: a part that the agent cannot see is named in an error.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from gymnasium import spaces

from agent57.config import ConfigError, require

MIN_PIXELS = 36  # least rows and columns of kind pixels; a smaller image is of kind grid
MAX_NUMBERS = 4096  # in a vector; a longer one is an image that should be shaped as an image
MAX_ACTIONS = 512  # largest number of combined actions


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The agent's view of the observations of one space."""

    kind: Literal["pixels", "grid", "vector"]
    shape: tuple[int, ...]
    max_value: int
    see: Callable[[Any], np.ndarray]
    image_shape: tuple[int, ...] = ()  # if numbers follow an image, all stored as bytes

    @property
    def dtype(self) -> Literal["uint8", "float32"]:
        """Type of the arrays that `see` returns."""
        return "float32" if self.kind == "vector" else "uint8"


def part_names(space: spaces.Space) -> list[str]:
    """Return the names of the parts of a Dict or Tuple, with dots where they are nested."""
    return [".".join(map(str, path)) for path, _ in _parts(space) if path]


def view_of(name: str, space: spaces.Space, observe: tuple[str, ...]) -> View:
    """Return the view of the parts of `space` that `observe` names, or of all parts."""
    parts = {".".join(map(str, path)) or "image": (path, part) for path, part in _parts(space)}
    for chosen in observe:
        require(
            chosen in parts,
            f"env.observe names {chosen!r}, but {name} observes "
            f"{', '.join(part_names(space)) or _one_line(space)}",
        )
    chosen_parts = {key: parts[key] for key in observe or parts}
    views = {
        key: (path, _part_view(name, key, part, list(parts)))
        for key, (path, part) in chosen_parts.items()
    }
    if len(views) == 1:
        ((path, view),) = views.values()
        return _at(path, view)
    return _fused(name, views)


def actions_of(name: str, space: spaces.Space) -> tuple[int, Callable[[int], Any]]:
    """Return the number of actions of `space`, and a function from index to action."""
    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        return int(space.n), lambda index: start + index
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        if isinstance(space, spaces.MultiBinary):
            sizes, first = np.full(space.shape, 2), np.zeros(space.shape, np.int64)
        else:
            sizes, first = np.asarray(space.nvec), np.asarray(space.start)
        num_actions = math.prod(int(size) for size in sizes.flat)
        require(
            num_actions <= MAX_ACTIONS,
            f"env.name {name!r} has {num_actions:,} combined actions ({_one_line(space)}): "
            f"wrap it to offer at most {MAX_ACTIONS}",
        )
        flat = tuple(int(size) for size in sizes.flat)

        def combined(index: int) -> np.ndarray:
            choice = np.array(np.unravel_index(index, flat)).reshape(space.shape)
            return (choice + first).astype(space.dtype)

        return num_actions, combined
    raise ConfigError(
        f"env.name {name!r} has {type(space).__name__} actions: "
        f"wrap it to offer a Discrete choice of actions"
    )


def _parts(space: spaces.Space, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple, spaces.Space]]:
    """Yield every space that is not a container, with the keys that lead to it."""
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            yield from _parts(part, (*path, key))
    elif isinstance(space, spaces.Tuple):
        for index, part in enumerate(space.spaces):
            yield from _parts(part, (*path, index))
    else:
        yield path, space


def _at(path: tuple[Any, ...], view: View) -> View:
    """Return a view that takes the whole observation and shows the part at `path`."""
    if not path:
        return view

    def see(observation: Any) -> np.ndarray:  # noqa: ANN401
        for key in path:
            observation = observation[key]
        return view.see(observation)

    return View(kind=view.kind, shape=view.shape, max_value=view.max_value, see=see)


def _part_view(name: str, key: str, space: spaces.Space, parts: list[str]) -> View:
    """Return the view of one part, or say in an error why the agent cannot see it."""
    if isinstance(space, spaces.Discrete):
        start, row = int(space.start), np.eye(int(space.n), dtype=np.float32)
        return _vector(int(space.n), lambda index: row[int(index) - start])
    if isinstance(space, spaces.MultiDiscrete):
        sizes = [int(size) for size in np.asarray(space.nvec).flat]
        offsets = np.cumsum([0, *sizes[:-1]]) - np.asarray(space.start).ravel()

        def one_hots(indices: Any) -> np.ndarray:  # noqa: ANN401
            vector = np.zeros(sum(sizes), np.float32)
            vector[np.asarray(indices).ravel() + offsets] = 1.0
            return vector

        return _vector(sum(sizes), one_hots)
    if isinstance(space, spaces.MultiBinary):
        return _vector(math.prod(space.shape), _numbers)
    if isinstance(space, spaces.Box):
        view = _box_view(space)
        if view is not None:
            return view
    what = f"part {key!r} of its observation is" if len(parts) > 1 else "its observation is"
    others = " ".join(other for other in parts if other != key)
    leave_out = f", or leave it out with --env.observe {others}" if others else ""
    if space.dtype is not None and np.dtype(space.dtype).kind == "U":  # Text, MiniGrid's missions
        reason = f"{what} text, which the agent cannot read: wrap it to give numbers"
    else:
        reason = f"{what} {_one_line(space)}: wrap it to give a uint8 image or a vector"
    raise ConfigError(f"env.name {name!r} cannot be seen whole: {reason}{leave_out}")


def _box_view(space: spaces.Box) -> View | None:
    """View a box as an image or as a vector; None if it is neither."""
    is_image = len(space.shape) in (2, 3)
    if is_image and space.dtype in (np.uint8, np.bool_):
        return _image_view(space)
    is_float = np.dtype(space.dtype).kind == "f"
    if is_image and is_float and min(_planes(space.shape)[0][1:]) >= MIN_PIXELS:
        return _float_image_view(space)
    size = math.prod(space.shape)
    return _vector(size, _numbers) if size <= MAX_NUMBERS else None


def _planes(shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape of an image as planes [C, Y, X], and the order of axes for it."""
    if len(shape) == 2:
        return (1, *shape), (0, 1)
    if shape[0] <= 4 < shape[2]:  # already planes, such as a stack of frames
        return shape, (0, 1, 2)
    return (shape[2], shape[0], shape[1]), (2, 0, 1)


def _image_view(space: spaces.Box) -> View:
    shape, order = _planes(space.shape)
    return View(
        kind="pixels" if min(shape[1:]) >= MIN_PIXELS else "grid",
        shape=shape,
        max_value=max(1, int(space.high.max())),
        see=lambda image: np.asarray(image, np.uint8).transpose(order).reshape(shape),
    )


def _float_image_view(space: spaces.Box) -> View | None:
    """View a float image in 256 levels between its bounds; None if it has no bounds."""
    low, high = float(space.low.min()), float(space.high.max())
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        return None
    shape, order = _planes(space.shape)

    def see(image: Any) -> np.ndarray:  # noqa: ANN401
        share = (np.asarray(image, np.float32) - low) / (high - low)
        return np.rint(255 * share.clip(0, 1)).astype(np.uint8).transpose(order).reshape(shape)

    return View(kind="pixels", shape=shape, max_value=255, see=see)


def _numbers(value: Any) -> np.ndarray:  # noqa: ANN401
    return np.asarray(value, np.float32).ravel()


def _vector(size: int, see: Callable[[Any], np.ndarray]) -> View:
    return View(kind="vector", shape=(size,), max_value=1, see=see)


def _fused(name: str, parts: dict[str, tuple[tuple[Any, ...], View]]) -> View:
    """Join several parts: images are stacked as planes, and numbers follow them."""
    views = {key: _at(path, view) for key, (path, view) in parts.items()}
    images = {key: view for key, view in views.items() if view.kind != "vector"}
    vectors = [view for view in views.values() if view.kind == "vector"]
    num_beside = sum(view.shape[0] for view in vectors)
    if not images:

        def see_numbers(observation: Any) -> np.ndarray:  # noqa: ANN401
            return np.concatenate([view.see(observation) for view in vectors])

        return _vector(num_beside, see_numbers)
    alike = {(view.kind, view.shape[1:], view.max_value) for view in images.values()}
    require(
        len(alike) == 1,
        f"env.name {name!r} observes images that do not fit together ({', '.join(images)}): "
        f"choose one of them with --env.observe, or wrap it",
    )
    ((kind, size, max_value),) = alike
    image_shape = (sum(view.shape[0] for view in images.values()), *size)

    def see_images(observation: Any) -> np.ndarray:  # noqa: ANN401
        return np.concatenate([view.see(observation) for view in images.values()])

    if not vectors:
        return View(kind=kind, shape=image_shape, max_value=max_value, see=see_images)

    def see(observation: Any) -> np.ndarray:  # noqa: ANN401
        beside = np.concatenate([view.see(observation) for view in vectors])
        if not np.isfinite(beside).all():
            raise ValueError("a number beside the image is not finite")
        return np.concatenate([see_images(observation).ravel(), beside.view(np.uint8)])

    shape = (math.prod(image_shape) + 4 * num_beside,)
    return View(kind=kind, shape=shape, max_value=max_value, see=see, image_shape=image_shape)


def _one_line(space: spaces.Space) -> str:
    return " ".join(str(space).split())
