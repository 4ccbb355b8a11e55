"""A trained policy as one small file, without replay and optimisers.

The file holds tensors and plain containers and is read with `weights_only`, so opening it runs no
code. It includes the task's observation and action spec, so acting needs no environment.
"""

import io
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_type_hints

import torch

from agent57.config import ConfigError, check_type, from_dict, require, to_dict
from agent57.storage.files import write_atomic
from agent57.trained.trained_run import TrainedRun
from agent57.types import EnvSpec

FORMAT = "agent57 policy"
VERSION = 1
SUFFIX = ".agent57"


def write_policy(run: TrainedRun, spec: EnvSpec, file: Path, *, half: bool = False) -> int:
    """Write the parts of a run that acting needs; return the bytes of the file.

    half: store weights in half precision, which halves the file and rounds the weights.
    """
    # Moments of observations ("standard.") may be too large for half precision.
    weights = {
        name: weight.half()
        if half and weight.is_floating_point() and "standard." not in name
        else weight
        for name, weight in run.weights.items()
    }
    content = {
        "format": FORMAT,
        "version": VERSION,
        "config": to_dict(run.config),
        "spec": asdict(spec),
        "counters": dict(run.counters),
        "weights": weights,
        "best_arm": run.best_arm,
        "curiosity": run.scales(),
    }
    buffer = io.BytesIO()
    torch.save(content, buffer)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, buffer.getvalue())
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}") from None
    return len(buffer.getvalue())


def read_policy(file: Path) -> TrainedRun:
    """Read a file that `write_policy` wrote; raise `ConfigError` for any other file."""
    content = _read(file)
    said = (content.get("format"), content.get("version"))
    # A tensor must not be compared: its result is not True or False.
    is_known = (*map(type, said),) == (str, int) and said == (FORMAT, VERSION)
    require(
        is_known,
        f"{file} is no policy of this agent57: it says {_shortened(said[0])}, version "
        f"{_shortened(said[1])}, not {FORMAT!r}, version {VERSION}",
    )
    try:
        return TrainedRun(
            path=file,
            config=from_dict(content["config"]),
            counters=content["counters"],
            weights={name: _whole(weight) for name, weight in content["weights"].items()},
            best_arm=content["best_arm"],
            curiosity=content["curiosity"],
            spec=_spec(content["spec"]),
        )
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"{file} is damaged: {type(error).__name__} {error}") from None


def read_trained(path: Path) -> TrainedRun:
    """Read a trained run from its folder, or from a policy file."""
    return read_policy(path) if path.is_file() else TrainedRun.load(path)


def _spec(values: dict[str, Any]) -> EnvSpec:
    """Return the spec that `asdict` wrote, after checking its types and sizes."""
    known: dict[str, Any] = {}
    for name, kind in get_type_hints(EnvSpec).items():
        if name in values:
            value = values[name]
            known[name] = tuple(value) if isinstance(value, list) else value
            check_type(kind, known[name], f"spec.{name}")
    spec = EnvSpec(**known)
    sizes = (*spec.observation_shape, *spec.image_shape, spec.num_actions, spec.frames_per_step)
    num_sides = 1 if spec.kind == "vector" or spec.image_shape else 3
    require(
        min(sizes) > 0
        and 0 < spec.max_value < 256
        and len(spec.observation_shape) == num_sides
        and len(spec.image_shape) in (0, 3),
        f"spec describes no task: {_shortened(values)}",
    )
    return spec


def _shortened(value: object) -> str:
    """Return a value from a foreign file, shortened to one line."""
    return " ".join(repr(value)[:80].split())


def _whole(weight: torch.Tensor) -> torch.Tensor:
    return weight.float() if weight.is_floating_point() else weight


def _read(file: Path) -> dict[str, Any]:
    """Read an uncompressed file; a compressed file could unpack to more than fits in memory."""
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
        is_stored = all(entry.compress_type == zipfile.ZIP_STORED for entry in entries)
        require(is_stored, f"{file} is no policy: it is compressed")
        content = torch.load(file, map_location="cpu", weights_only=True)
        require(isinstance(content, dict), f"{file} is no policy")
        return dict(content)
    except ConfigError:
        raise
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror or error}") from None
    except Exception as error:  # any error that a foreign file causes in the reader
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ConfigError(f"{file} is no policy: {reason}") from None
