"""Checkpoints that a crash cannot harm: state, replay blocks and a manifest that commits both.

    checkpoints/
      000000012345.json          the manifest, named by updates; written last, atomically
      000000012345.state         tensors and plain containers, read with weights_only
      blocks-000000012345.bin    the replay blocks that were new at that checkpoint

A checkpoint is what its manifest names, each file with its size and SHA-256. Blocks are written
once and shared by later manifests, so a checkpoint of a full replay costs only what is new. Files
no manifest names are leftovers of an interrupted write and are removed by the next one.
"""

import hashlib
import io
import json
import os
import struct
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from agent57.config import ConfigError
from agent57.records.folder import sync_folder, write_atomic

FORMAT = 1
_RECORD = struct.Struct("<qQ")  # block id, bytes of the message that follows


class Block(Protocol):
    """What the replay keeps, as far as a file is concerned."""

    def to_bytes(self) -> bytes:
        """Everything in one message."""
        ...


class DamagedCheckpoint(Exception):
    """A file that is not what was written; the text names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One that was found whole."""

    name: str
    state: dict[str, Any]
    blocks: Iterator[tuple[int, bytes]]  # ids and messages, in ascending order
    damaged: list[str]  # newer checkpoints that were passed over, and why


class CheckpointStore:
    """Writes checkpoints in the background, the last `keep` of them kept, and reads them back."""

    def __init__(self, folder: Path, keep: int) -> None:
        self._folder = folder
        self._keep = keep
        self._thread: threading.Thread | None = None
        self._error: OSError | None = None
        self._segments: list[dict[str, Any]] = []  # of the newest checkpoint
        self._last_block = -1  # newest block on disk

    def save(self, state: dict[str, Any], blocks: Iterable[tuple[int, Block]]) -> None:
        """Take a snapshot in memory and write it in the background.

        `blocks` are the live ones in ascending order of id. The error of an earlier write that
        failed is raised here.
        """
        self.wait()
        self._folder.mkdir(parents=True, exist_ok=True)
        buffer = io.BytesIO()
        torch.save(state, buffer)
        live = list(blocks)
        name = f"{state['counters']['updates']:012d}-{state['counters']['steps']:012d}"
        self._thread = threading.Thread(
            target=self._write_or_note, args=(name, buffer, live), name="checkpoint"
        )
        self._thread.start()

    def wait(self) -> None:
        """Wait for the write under way; raises its error."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _write_or_note(self, name: str, buffer: io.BytesIO, live: list[tuple[int, Block]]) -> None:
        try:
            self._write(name, buffer, live)
        except OSError as error:
            self._error = error

    def _write(self, name: str, buffer: io.BytesIO, live: list[tuple[int, Block]]) -> None:
        segments = [s for s in self._segments if live and s["last"] >= live[0][0]]
        new = [(key, block) for key, block in live if key > self._last_block]
        if new:
            segment = _write_file(self._folder / f"blocks-{name}.bin", _records(new))
            segments.append({**segment, "first": new[0][0], "last": new[-1][0]})
        state = _write_file(self._folder / f"{name}.state", [buffer.getbuffer()])
        manifest = {"format": FORMAT, "state": state, "segments": segments}
        write_atomic(self._folder / f"{name}.json", _sealed(manifest))
        self._segments = segments
        self._last_block = max(self._last_block, live[-1][0] if live else -1)
        self._prune()

    def _prune(self) -> None:
        """Remove all but the last checkpoints, and files that none of them names."""
        manifests = self._manifests()
        for path in manifests[: -self._keep]:
            path.unlink()
        kept = set()
        for path in manifests[-self._keep :]:
            try:
                manifest = _unsealed(path)
            except DamagedCheckpoint:
                continue
            kept |= {path.name, manifest["state"]["file"]}
            kept |= {segment["file"] for segment in manifest["segments"]}
        for path in self._folder.iterdir():
            if path.suffix in (".state", ".bin", ".partial") and path.name not in kept:
                path.unlink()

    def _manifests(self) -> list[Path]:
        return sorted(self._folder.glob("[0-9]*.json"))

    def load(self) -> Checkpoint:
        """The newest checkpoint that is whole; `ConfigError` if there is none."""
        damaged = []
        for path in reversed(self._manifests()):
            try:
                manifest = _unsealed(path)
                content = _verified(self._folder, manifest["state"])
                for segment in manifest["segments"]:
                    _verified(self._folder, segment)
                state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
            except DamagedCheckpoint as error:
                damaged.append(str(error))
                continue
            self._segments = manifest["segments"]
            self._last_block = max((s["last"] for s in self._segments), default=-1)
            blocks = self._blocks(manifest["segments"])
            return Checkpoint(name=path.stem, state=state, blocks=blocks, damaged=damaged)
        reason = "; ".join(damaged) if damaged else "none was written"
        raise ConfigError(f"{self._folder} holds no usable checkpoint: {reason}")

    def _blocks(self, segments: list[dict[str, Any]]) -> Iterator[tuple[int, bytes]]:
        for segment in segments:
            content = (self._folder / segment["file"]).read_bytes()
            offset = 0
            while offset < len(content):
                key, size = _RECORD.unpack_from(content, offset)
                offset += _RECORD.size
                yield key, content[offset : offset + size]
                offset += size


def _records(blocks: list[tuple[int, Block]]) -> Iterator[bytes]:
    for key, block in blocks:
        message = block.to_bytes()
        yield _RECORD.pack(key, len(message))
        yield message


def _write_file(path: Path, parts: Iterable[bytes | memoryview]) -> dict[str, Any]:
    """Write a file under a temporary name, bring it to disk, rename; what a manifest says of it."""
    digest, size = hashlib.sha256(), 0
    temporary = path.with_name(f".{path.name}.partial")
    with temporary.open("wb") as file:
        for part in parts:
            file.write(part)
            digest.update(part)
            size += len(part)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)
    return {"file": path.name, "bytes": size, "sha256": digest.hexdigest()}


def _sealed(manifest: dict[str, Any]) -> bytes:
    """A manifest with a checksum of its own."""
    body = json.dumps(manifest, sort_keys=True)
    return json.dumps(
        {"manifest": body, "sha256": hashlib.sha256(body.encode()).hexdigest()}
    ).encode()


def _unsealed(path: Path) -> dict[str, Any]:
    try:
        envelope = json.loads(path.read_bytes())
        body, checksum = envelope["manifest"], envelope["sha256"]
        is_whole = hashlib.sha256(body.encode()).hexdigest() == checksum
        manifest = json.loads(body) if is_whole else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedCheckpoint(f"{path.name} is no manifest ({type(error).__name__})") from None
    if not is_whole:
        raise DamagedCheckpoint(f"{path.name} does not match its checksum")
    if manifest["format"] != FORMAT:
        raise DamagedCheckpoint(f"{path.name} has format {manifest['format']}, not {FORMAT}")
    return manifest


def _verified(folder: Path, entry: dict[str, Any]) -> bytes:
    """The content of a file, if it is what was written."""
    try:
        content = (folder / entry["file"]).read_bytes()
    except OSError as error:
        raise DamagedCheckpoint(f"{entry['file']}: {error.strerror}") from None
    if len(content) != entry["bytes"]:
        raise DamagedCheckpoint(f"{entry['file']} has {len(content)} bytes, not {entry['bytes']}")
    if hashlib.sha256(content).hexdigest() != entry["sha256"]:
        raise DamagedCheckpoint(f"{entry['file']} does not match its checksum")
    return content
