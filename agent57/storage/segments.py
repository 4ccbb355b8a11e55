"""Sealed parts of a long journal: moved out of the growing file, then compressed.

    episodes.jsonl                                              grows
    episodes.000000000000-000016000123.jsonl.zst                sealed: bytes 0 to 16,000,123
    episodes.000016000123-000032000087.jsonl                    sealed, not compressed yet

A journal is the concatenation of its segments and the growing file. The names say which bytes a
segment holds, so a damaged segment does not move the others. Sealing is one rename. Compression
writes a second file and then removes the first, so a crash in between leaves two equal copies.
`zstdcat` reads a compressed segment: each part is a zstd frame with its own checksum.
"""

import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import zstandard

from agent57.storage.files import open_plain, write_atomic

SEGMENT_BYTES = 16_000_000  # size at which a journal is sealed
PART_BYTES = 250_000  # bytes of a segment that are compressed at once
MAX_RATIO = 200  # largest compression ratio that is accepted; episodes reach about 10
_LEVEL = 9
_NAME = re.compile(r"(\d{12,})-(\d{12,})\.jsonl(\.zst)?")
_HEAD = struct.Struct("<IIII")  # magic, 8, packed bytes, bytes; zstd skips it as a user frame
_MAGIC = 0x184D2A57


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One sealed part of a journal, bytes `start` to `end`."""

    path: Path
    start: int
    end: int

    @property
    def is_packed(self) -> bool:
        """Whether the file is compressed."""
        return self.path.suffix == ".zst"


def segment_path(journal: Path, start: int, end: int) -> Path:
    """Return the name of a sealed part of a journal."""
    return journal.with_name(f"{journal.stem}.{start:012d}-{end:012d}.jsonl")


def segments(journal: Path) -> list[Segment]:
    """Return the sealed parts of a journal in order, without second copies."""
    found: list[Segment] = []
    for segment in _all_files(journal):
        if segment.start >= (found[-1].end if found else 0):
            found.append(segment)
    return found


def _all_files(journal: Path) -> list[Segment]:
    """Return all segments in order, including second copies that a crash left behind."""
    found = []
    for path in sorted(journal.parent.glob(f"{journal.stem}.*.jsonl*")):
        name = _NAME.fullmatch(path.name.removeprefix(f"{journal.stem}."))
        if name:
            found.append(Segment(path=path, start=int(name[1]), end=int(name[2])))
    return found


def sealed_bytes(journal: Path) -> int:
    """Return how many bytes of a journal are in segments."""
    return max((segment.end for segment in segments(journal)), default=0)


def cut_segments(journal: Path, size: int) -> None:
    """Shorten the sealed part of a journal to `size` bytes, beginning at its end."""
    for segment in reversed(_all_files(journal)):
        if segment.end > size:
            if segment.start < size:
                kept = b"".join(content for content, _ in contents(segment))
                write_atomic(
                    segment_path(journal, segment.start, size), kept[: size - segment.start]
                )
            segment.path.unlink()


def compress(segment: Segment) -> None:
    """Compress a segment; a crash or a full disk leaves the segment as it was."""
    compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
    packed = bytearray()
    with open_plain(segment.path) as file:
        while part := file.readlines(PART_BYTES):
            content = b"".join(part)
            frame = compressor.compress(content)
            packed += _HEAD.pack(_MAGIC, _HEAD.size - 8, len(frame), len(content)) + frame
    write_atomic(_packed_path(segment), bytes(packed))
    segment.path.unlink()


def _packed_path(segment: Segment) -> Path:
    return segment.path.with_name(f"{segment.path.name}.zst")


def contents(segment: Segment) -> Iterator[tuple[bytes, str]]:
    """Yield the parts of a segment, each in whole lines and with a message if damaged, or ""."""
    try:
        with open_plain(segment.path) as file:
            content = file.read()
    except FileNotFoundError:
        if segment.is_packed:
            raise
        yield from contents(replace(segment, path=_packed_path(segment)))  # compressed meanwhile
        return
    if not segment.is_packed:
        yield content, ""
        return
    name, wanted = segment.path.name, segment.end - segment.start
    if wanted > MAX_RATIO * len(content):
        yield b"", f"{name} would unpack to {wanted} bytes, more than agent57 ever writes"
        return
    place, number = 0, 0
    while place < len(content):
        number += 1
        part, size = _part(content, place)
        wrong = "" if part is not None else f"{name} is damaged in part {number}"
        yield part or b"", wrong
        place = place + size if size else _next_part(content, place)


def _part(content: bytes, place: int) -> tuple[bytes | None, int]:
    """Return the part at a place and its packed size; None if damaged, size 0 if its head is."""
    head = content[place : place + _HEAD.size]
    if len(head) < _HEAD.size:
        return None, 0
    magic, length, num_packed, num_bytes = _HEAD.unpack(head)
    if magic != _MAGIC or length != _HEAD.size - 8 or num_bytes > MAX_RATIO * num_packed:
        return None, 0
    frame = content[place + _HEAD.size : place + _HEAD.size + num_packed]
    size = _HEAD.size + num_packed
    try:
        if zstandard.frame_content_size(frame) != num_bytes:
            return None, 0
        return zstandard.ZstdDecompressor().decompress(frame, allow_extra_data=False), size
    except (zstandard.ZstdError, MemoryError):
        return None, 0


def _next_part(content: bytes, place: int) -> int:
    """Return the place of the next head, or the end."""
    found = content.find(_MAGIC.to_bytes(4, "little"), place + 1)
    return found if found >= 0 else len(content)


def stream(journal: Path) -> Iterator[bytes]:
    """Yield the undamaged parts of a journal in pieces, segments first."""
    for segment in segments(journal):
        for content, _ in contents(segment):
            yield content
    if journal.exists():
        with open_plain(journal) as file:
            while chunk := file.read(1 << 20):
                yield chunk


def checksum_of(journal: Path, size: int) -> int:
    """Return the CRC-32 of the first `size` bytes of a journal, or of all if it is shorter."""
    checksum = 0
    for chunk in stream(journal):
        checksum = zlib.crc32(chunk[:size], checksum)
        size -= len(chunk)
        if size <= 0:
            break
    return checksum
