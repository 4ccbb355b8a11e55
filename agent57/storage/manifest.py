"""The files of a checkpoint, and the manifest that lists their sizes and SHA-256.

`checkpoint.py` decides which checkpoint to use and when to write one.
"""

import hashlib
import json
import os
import re
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

from agent57.storage.files import open_plain, write_atomic, write_parts

FORMAT = 1
MAX_MANIFEST_BYTES = 64_000_000
OWN_NAME = re.compile(r"\.?(\d{12})\.(?:json|state|blocks)(?:\.partial)?")

Entry = dict[str, Any]  # a manifest's entry for one file: its name, bytes and sha256
Manifest = dict[str, Any]  # format, counters, entry of the state, entries of the segments


class DamagedCheckpoint(Exception):
    """A file differs from what was written; the message names the file."""


def write_file(path: Path, parts: Iterable[bytes | memoryview]) -> Entry:
    """Write a file whole or not at all; return its entry for a manifest."""
    digest, size = hashlib.sha256(), 0

    def measured() -> Iterator[bytes | memoryview]:
        nonlocal size
        for part in parts:
            digest.update(part)
            size += len(part)
            yield part

    write_parts(path, measured())
    return {"file": path.name, "bytes": size, "sha256": digest.hexdigest()}


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Commit a checkpoint: write its manifest, with a checksum of the manifest, in one step."""
    body = json.dumps({"format": FORMAT, **manifest}, sort_keys=True)
    seal = hashlib.sha256(body.encode()).hexdigest()
    write_atomic(path, json.dumps({"manifest": body, "sha256": seal}).encode())


def read_manifest(path: Path) -> Manifest:
    """Return the manifest that `write_manifest` wrote; anything else is `DamagedCheckpoint`."""
    try:
        with open_plain(path) as file:
            envelope = json.loads(file.read(MAX_MANIFEST_BYTES))
        body, seal = envelope["manifest"], envelope["sha256"]
        is_whole = hashlib.sha256(body.encode()).hexdigest() == seal
        manifest = json.loads(body) if is_whole else {}
    except OSError as error:
        raise DamagedCheckpoint(f"{path.name}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedCheckpoint(f"{path.name} is no manifest ({type(error).__name__})") from None
    if not is_whole:
        raise DamagedCheckpoint(f"{path.name} does not match its checksum")
    if manifest.get("format") != FORMAT:
        raise DamagedCheckpoint(f"{path.name} has format {manifest.get('format')}, not {FORMAT}")
    if not _is_complete(manifest):
        raise DamagedCheckpoint(f"{path.name} is no manifest: fields are missing or of wrong types")
    return manifest


def _is_complete(manifest: Manifest) -> bool:
    """Whether all fields are present, and name only files of this folder."""
    counters, segments = manifest.get("counters"), manifest.get("segments")
    if not isinstance(counters, dict) or not isinstance(segments, list):
        return False
    are_counts = all(type(count) is int for count in counters.values())
    are_entries = all(map(_is_entry, (manifest.get("state"), *segments)))
    return (
        are_counts
        and are_entries
        and all(
            type(segment.get(name)) is int for segment in segments for name in ("first", "last")
        )
    )


def _is_entry(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("file"), str)
        and OWN_NAME.fullmatch(entry["file"]) is not None
        and type(entry.get("bytes")) is int
        and isinstance(entry.get("sha256"), str)
    )


def files_of(manifest: Manifest) -> set[str]:
    """Return the names of a checkpoint's files, except its manifest."""
    return {entry["file"] for entry in (manifest["state"], *manifest["segments"])}


def verify(folder: Path, entry: Entry) -> None:
    """Raise `DamagedCheckpoint` unless a file is as it was written. It is read in pieces."""
    try:
        with open_plain(folder / entry["file"]) as file:
            size = os.fstat(file.fileno()).st_size
            seal = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DamagedCheckpoint(f"{entry['file']}: {error.strerror}") from None
    if size != entry["bytes"]:
        raise DamagedCheckpoint(f"{entry['file']} has {size} bytes, not {entry['bytes']}")
    if seal != entry["sha256"]:
        raise DamagedCheckpoint(f"{entry['file']} does not match its checksum")


def read_state(folder: Path, entry: Entry, *, in_part: bool = False) -> dict[str, Any]:
    """Return the state in a file, if the file is as it was written. Reading runs no code.

    With `in_part`, a tensor is read from disk only when it is used.
    """
    verify(folder, entry)
    try:
        file = folder / entry["file"]
        _check_unpacked_size(file)
        state = torch.load(file, map_location="cpu", weights_only=True, mmap=in_part)
        if not isinstance(state, dict):
            raise ValueError(f"it is a {type(state).__name__}")
        for tensor in _tensors(state):
            if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
                raise ValueError(f"a tensor of {tuple(tensor.shape)} is larger than its data")
        return state
    except Exception as error:  # any error that a foreign file causes in the reader
        reason = str(error).splitlines()[:1] or [type(error).__name__]
        raise DamagedCheckpoint(f"{entry['file']} holds no state: {reason[0]}") from error


def _check_unpacked_size(file: Path) -> None:
    """Refuse a state that needs more memory than its file: `torch.save` compresses nothing."""
    with zipfile.ZipFile(file) as archive:
        if any(record.compress_type != zipfile.ZIP_STORED for record in archive.infolist()):
            raise ValueError("it is compressed, which agent57 never does")
        unpacked = sum(record.file_size for record in archive.infolist())
    if unpacked > file.stat().st_size:
        raise ValueError(f"it would take {unpacked} bytes, more than the file has")


def _tensors(tree: Any) -> Iterator[torch.Tensor]:  # noqa: ANN401
    """Yield all tensors in nested containers; a container that occurs twice is searched once."""
    waiting, seen = [tree], set()
    while waiting:
        item = waiting.pop()
        if isinstance(item, torch.Tensor):
            yield item
        elif isinstance(item, dict | list | tuple | set) and id(item) not in seen:
            seen.add(id(item))
            waiting += item.values() if isinstance(item, dict) else item
