"""The files of a checkpoint and the manifest that vouches for them, each with size and SHA-256.

Nothing here decides which checkpoint to use, or when to write one.
"""

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from agent57.storage.folder import sync_folder, write_atomic

FORMAT = 1

Entry = dict[str, Any]  # what a manifest says of one file: its name, bytes and sha256
Manifest = dict[str, Any]  # format, counters, the entry of the state, the entries of the segments


class DamagedCheckpoint(Exception):
    """A file that is not what was written; the text names it."""


def write_file(path: Path, parts: Iterable[bytes | memoryview]) -> Entry:
    """Write a file under a temporary name, bring it to disk, rename; what a manifest says of it.

    Nothing is left behind where this fails.
    """
    digest, size = hashlib.sha256(), 0
    temporary = path.with_name(f".{path.name}.partial")
    try:
        with temporary.open("wb") as file:
            for part in parts:
                file.write(part)
                digest.update(part)
                size += len(part)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except Exception:
        temporary.unlink(missing_ok=True)
        raise
    return {"file": path.name, "bytes": size, "sha256": digest.hexdigest()}


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Commit a checkpoint: a manifest with a checksum of its own, written in one step."""
    body = json.dumps({"format": FORMAT, **manifest}, sort_keys=True)
    seal = hashlib.sha256(body.encode()).hexdigest()
    write_atomic(path, json.dumps({"manifest": body, "sha256": seal}).encode())


def read_manifest(path: Path) -> Manifest:
    """The manifest `write_manifest` wrote; anything else is damage."""
    try:
        envelope = json.loads(path.read_bytes())
        body, seal = envelope["manifest"], envelope["sha256"]
        is_whole = hashlib.sha256(body.encode()).hexdigest() == seal
        manifest = json.loads(body) if is_whole else {}
    except OSError as error:
        raise DamagedCheckpoint(f"{path.name}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedCheckpoint(f"{path.name} is no manifest ({type(error).__name__})") from None
    if not is_whole:
        raise DamagedCheckpoint(f"{path.name} does not match its checksum")
    if manifest.get("format") != FORMAT:
        raise DamagedCheckpoint(f"{path.name} has format {manifest.get('format')}, not {FORMAT}")
    return manifest


def files_of(manifest: Manifest) -> set[str]:
    """The names of the files a checkpoint consists of, but for its manifest."""
    return {entry["file"] for entry in (manifest["state"], *manifest["segments"])}


def verify(folder: Path, entry: Entry) -> None:
    """Raise unless a file is what was written. It is never held in memory as a whole."""
    try:
        with (folder / entry["file"]).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            seal = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DamagedCheckpoint(f"{entry['file']}: {error.strerror}") from None
    if size != entry["bytes"]:
        raise DamagedCheckpoint(f"{entry['file']} has {size} bytes, not {entry['bytes']}")
    if seal != entry["sha256"]:
        raise DamagedCheckpoint(f"{entry['file']} does not match its checksum")


def read_state(folder: Path, entry: Entry, *, in_part: bool = False) -> dict[str, Any]:
    """The state in a file, if it is what was written. Reading it runs no code.

    Of a state read in part, a tensor comes from the disk when it is used, and only then.
    """
    verify(folder, entry)
    try:
        file = folder / entry["file"]
        return torch.load(file, map_location="cpu", weights_only=True, mmap=in_part)
    except Exception as error:  # whatever a foreign file makes the reader trip over
        reason = str(error).splitlines()[:1] or [type(error).__name__]
        raise DamagedCheckpoint(f"{entry['file']} holds no state: {reason[0]}") from error
