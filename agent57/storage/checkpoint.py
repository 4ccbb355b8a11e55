"""Checkpoints that a crash cannot harm: state, replay blocks and a manifest that commits both.

    checkpoints/
      000000000012.json      the manifest, written last, atomically; numbers only ever rise
      000000000012.state     tensors and plain containers, read with weights_only
      000000000012.blocks    the replay blocks that were new at that checkpoint

A checkpoint consists of the files that its manifest names. Blocks are written once and shared by
later manifests, so a checkpoint of a full replay writes only new blocks. Files that no manifest
names are leftovers of an interrupted write, and the next write removes them.
"""

import contextlib
import io
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from agent57.config import ConfigError
from agent57.storage.files import make_own_folder, open_plain
from agent57.storage.folder import JOURNALS
from agent57.storage.manifest import (
    OWN_NAME,
    DamagedCheckpoint,
    Entry,
    files_of,
    read_manifest,
    read_state,
    verify,
    write_file,
    write_manifest,
)
from agent57.storage.segments import checksum_of, sealed_bytes

_RECORD = struct.Struct("<qQ")  # block id, bytes of the message that follows
_DIGITS = 12  # digits at the beginning of every file's name
_READ_ATTEMPTS = 3  # because a running training may remove a checkpoint while it is read


class SavedBlock(Protocol):
    """A block of the replay that can be written to a file."""

    def to_bytes(self) -> bytes:
        """Return the block as one message."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint that a run can go on from."""

    name: str
    state: dict[str, Any]
    blocks: Iterator[tuple[int, bytes]]  # ids and messages, in ascending order
    damaged: list[str]  # damage found in newer checkpoints that were skipped, or in this one
    first_block: int = 0  # earlier blocks are lost; 0 if no block is lost


class CheckpointStore:
    """Writes checkpoints in the background, keeps the last `keep` of them, and reads them back.

    `before_commit` also runs in the background, when everything but the manifest is on disk.
    """

    def __init__(
        self, folder: Path, keep: int, before_commit: Callable[[], None] = lambda: None
    ) -> None:
        self._folder = folder
        self._keep = keep
        self._before_commit = before_commit
        # Not `Thread.join`: a Ctrl-C in it makes Python count a living thread as ended.
        self._is_idle = threading.Event()
        self._is_idle.set()
        self._error: Exception | None = None
        self._kept: dict[str, set[str]] = {}  # files of each valid checkpoint, oldest first
        self._segments: list[Entry] = []  # of the newest checkpoint
        self._last_block = -1  # id of the newest block on disk
        self._last_number = 0  # highest number in a name: no name is used twice

    @property
    def newest(self) -> str | None:
        """The name of the newest checkpoint on disk."""
        return next(reversed(self._kept), None)

    @property
    def is_writing(self) -> bool:
        """Whether a write is under way."""
        return not self._is_idle.is_set()

    @property
    def next_block(self) -> int:
        """The first block id that is not on disk yet. Valid while nothing is being written."""
        return self._last_block + 1

    def forget_lost(self) -> list[str]:
        """Forget checkpoints that lack a file, and return their names.

        The next checkpoint writes all blocks again if some of them are gone.
        """
        there = {path.name for path in self._folder.iterdir()} if self._folder.is_dir() else set()
        lost = [name for name, files in self._kept.items() if not {*files, f"{name}.json"} <= there]
        for name in lost:
            del self._kept[name]
        if not {segment["file"] for segment in self._segments} <= there:
            self._segments, self._last_block = [], -1
        return lost

    def save(
        self,
        state: dict[str, Any],
        blocks: Iterable[tuple[int, SavedBlock]],
        oldest_id: int | None = None,
    ) -> None:
        """Take a snapshot in memory and write it in the background.

        `blocks` are the live blocks in ascending order of id; they are referenced, not copied.
        Blocks on disk may be left out if `oldest_id`, the lowest id of all live blocks, is given.
        A write under way is waited for; call `wait` first to learn how it ended.
        """
        self.wait()
        snapshot = io.BytesIO()
        torch.save(state, snapshot)
        blocks = list(blocks)
        if oldest_id is None:
            oldest_id = blocks[0][0] if blocks else self.next_block
        journal = state.get("journal", {})
        checksums = journal.get("checksums", {})
        head = {
            "counters": state["counters"],
            "journals": {n: [journal["sizes"][n], crc] for n, crc in checksums.items()},
        }
        work = (head, snapshot, blocks, oldest_id)
        self._is_idle.clear()
        try:
            threading.Thread(target=self._try_to_write, args=work, name="checkpoint").start()
        except BaseException:
            self._is_idle.set()
            raise

    def join(self) -> None:
        """Wait until nothing is being written."""
        self._is_idle.wait()

    def wait(self) -> OSError | None:
        """Wait for the write under way; return the error if the disk refused, raise any other."""
        self.join()
        error, self._error = self._error, None
        if error is None or isinstance(error, OSError):
            return error
        raise error

    def _try_to_write(self, *work: Any) -> None:  # noqa: ANN401
        try:
            self._write(*work)
        except Exception as error:  # raised or returned by `wait`
            self._error = error
        finally:
            self._is_idle.set()

    def _write(
        self,
        head: dict[str, Any],
        snapshot: io.BytesIO,
        blocks: list[tuple[int, SavedBlock]],
        oldest_id: int,
    ) -> None:
        make_own_folder(self._folder)  # not its parents: a removed run folder stays removed
        if {path.stem for path in _manifests(self._folder)} == set(self._kept):
            self._prune()  # leftovers may be in the way on a full disk
        self._last_number = max(self._last_number, _newest_number(self._folder)) + 1
        name = f"{self._last_number:0{_DIGITS}d}"
        segments = [s for s in self._segments if s["last"] >= oldest_id]
        new = [(key, block) for key, block in blocks if key > self._last_block]
        try:
            if new:
                entry = write_file(self._folder / f"{name}.blocks", _records(new))
                segments.append({**entry, "first": new[0][0], "last": new[-1][0]})
            state = write_file(self._folder / f"{name}.state", [snapshot.getbuffer()])
            self._before_commit()
            manifest = {**head, "state": state, "segments": segments}
            write_manifest(self._folder / f"{name}.json", manifest)
        except Exception:
            for suffix in ("json", "state", "blocks"):
                (self._folder / f"{name}.{suffix}").unlink(missing_ok=True)
            raise
        self._kept[name] = files_of(manifest)
        self._segments = segments
        self._last_block = new[-1][0] if new else self._last_block
        self._prune()

    def _prune(self) -> None:
        """Remove old checkpoints, and files that no kept checkpoint names."""
        for name in list(self._kept)[: -self._keep]:
            del self._kept[name]
        needed = {f"{name}.json" for name in self._kept}.union(*self._kept.values())
        # Manifests first: one that a crash leaves behind must not name files that are gone.
        for path in sorted(self._folder.iterdir(), key=lambda path: path.suffix != ".json"):
            if OWN_NAME.fullmatch(path.name) and path.name not in needed:
                path.unlink()

    def load(self) -> Checkpoint | None:
        """Return the newest undamaged checkpoint; None if none was ever written.

        Checkpoints share blocks, so one damaged file may spoil all of them. Then return the newest
        checkpoint with an undamaged state, with the blocks that come after the damage.
        """
        damaged: list[str] = []
        spoilt: list[Path] = []  # manifests whose state may be undamaged
        manifests = _manifests(self._folder)
        for path in reversed(manifests):
            try:
                manifest = read_manifest(path)
                spoilt.append(path)
                for segment in manifest["segments"]:
                    verify(self._folder, segment)
                return self._take(manifests, path, manifest["segments"], damaged)
            except DamagedCheckpoint as error:
                damaged.append(str(error))
        for path in spoilt:
            segments = _intact(self._folder, read_manifest(path)["segments"])
            try:
                return self._take(manifests, path, segments, damaged)
            except DamagedCheckpoint as error:
                damaged.append(str(error))
        if not damaged:
            return None
        reasons = "; ".join(dict.fromkeys(damaged))
        raise ConfigError(f"{self._folder} holds no usable checkpoint: {reasons}")

    def _take(
        self, manifests: list[Path], path: Path, segments: list[Entry], damaged: list[str]
    ) -> Checkpoint:
        """Go on from one checkpoint, with these of its segments."""
        manifest = read_manifest(path)
        state = read_state(self._folder, manifest["state"])
        last_block = max((s["last"] for s in manifest["segments"]), default=-1)
        is_whole = segments == manifest["segments"]
        first_block = 0 if is_whole else segments[0]["first"] if segments else last_block + 1
        self._kept = _readable(manifests[: manifests.index(path) + 1])
        self._segments, self._last_block = segments, last_block
        self._last_number = _newest_number(self._folder)
        return Checkpoint(
            name=path.stem,
            state=state,
            blocks=_read_blocks(self._folder, segments),
            damaged=list(dict.fromkeys(damaged)),
            first_block=first_block,
        )


def newest_state(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the newest undamaged state, and what is wrong with newer states.

    Tensors are read when used. A training may be writing meanwhile. The replay is neither read nor
    verified.
    """
    damaged: list[str] = []
    for _ in range(_READ_ATTEMPTS):
        damaged = []
        for path in reversed(_manifests(folder)):
            try:
                state = read_state(folder, read_manifest(path)["state"], in_part=True)
                return state, list(dict.fromkeys(damaged))
            except DamagedCheckpoint as error:
                damaged.append(str(error))
    reason = "; ".join(dict.fromkeys(damaged)) or "none was written yet"
    raise ConfigError(f"{folder} holds no usable checkpoint: {reason}")


def changed_journals(run: Path, folder: Path) -> list[str]:
    """Compare the journals of a run with its newest manifest; return what is wrong with them."""
    found = []
    for path in reversed(_manifests(folder)):
        with contextlib.suppress(DamagedCheckpoint, OSError, ValueError, TypeError):
            for name, (size, checksum) in read_manifest(path).get("journals", {}).items():
                if name not in JOURNALS:
                    continue
                present = sealed_bytes(run / name) + (run / name).stat().st_size
                if present < size:
                    found.append(f"{name} lacks {size - present} bytes it once had")
                elif checksum_of(run / name, size) != checksum:
                    found.append(f"{name} was changed from outside: some lines may be damaged")
            break
    return found


def newest_counters(folder: Path) -> dict[str, int]:
    """Return the counters of the newest readable manifest; empty if there is none."""
    for path in reversed(_manifests(folder)):
        with contextlib.suppress(DamagedCheckpoint):
            counters: dict[str, int] = read_manifest(path)["counters"]
            return counters
    return {}


def _manifests(folder: Path) -> list[Path]:
    """Return all manifests, oldest first."""
    return sorted(path for path in folder.glob("*.json") if OWN_NAME.fullmatch(path.name))


def _newest_number(folder: Path) -> int:
    """Return the highest number of any file. Higher numbers overwrite no existing file."""
    names = (OWN_NAME.fullmatch(path.name) for path in folder.iterdir())
    return max((int(name[1]) for name in names if name), default=0)


def _intact(folder: Path, segments: list[Entry]) -> list[Entry]:
    """Return the segments after the last damaged segment."""
    intact: list[Entry] = []
    for segment in segments:
        try:
            verify(folder, segment)
            intact.append(segment)
        except DamagedCheckpoint:
            intact = []
    return intact


def _readable(manifests: list[Path]) -> dict[str, set[str]]:
    """Return the files of each checkpoint whose manifest is undamaged."""
    kept = {}
    for path in manifests:
        try:
            kept[path.stem] = files_of(read_manifest(path))
        except DamagedCheckpoint:
            continue  # of no use; the next write removes it
    return kept


def _records(blocks: list[tuple[int, SavedBlock]]) -> Iterator[bytes]:
    for key, block in blocks:
        message = block.to_bytes()
        yield _RECORD.pack(key, len(message))
        yield message


def _read_blocks(folder: Path, segments: list[Entry]) -> Iterator[tuple[int, bytes]]:
    for segment in segments:
        with open_plain(folder / segment["file"]) as file:
            left = segment["bytes"]
            while left:
                head = file.read(_RECORD.size)
                left -= len(head)
                key, size = _RECORD.unpack(head) if len(head) == _RECORD.size else (0, left + 1)
                if size > left:
                    raise ValueError(f"{segment['file']} holds records that do not fit in it")
                yield key, file.read(size)
                left -= size
