"""By law: a committed checkpoint can be read, whatever happens to later checkpoints."""

import errno
import os
import random
import threading
from dataclasses import dataclass

import pytest
import torch

from agent57.config import ConfigError
from agent57.storage.checkpoint import CheckpointStore, newest_counters, newest_state


@dataclass(frozen=True)
class Message:
    content: bytes

    def to_bytes(self):
        return self.content


def blocks(first, end, salt=""):
    return [(i, Message(f"block {i}{salt} ".encode() * (1 + i % 3))) for i in range(first, end)]


def contents(given):
    return [(key, block.content) for key, block in given]


def state(number):
    return {"counters": {"updates": number}, "weight": torch.full((3,), float(number))}


def save(store, number, live):
    store.save(state(number), live)
    error = store.wait()
    if error is not None:
        raise error


def load(folder, keep=2):
    store = CheckpointStore(folder, keep)
    checkpoint = store.load()
    assert checkpoint is not None
    return store, checkpoint


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def segments(folder):
    return [name for name in names(folder) if name.endswith(".blocks")]


def test_a_checkpoint_is_read_back(tmp_path):
    save(CheckpointStore(tmp_path, 2), 7, blocks(0, 5))
    _, checkpoint = load(tmp_path)
    assert checkpoint.state["counters"] == {"updates": 7}
    assert torch.equal(checkpoint.state["weight"], torch.full((3,), 7.0))
    assert list(checkpoint.blocks) == contents(blocks(0, 5))
    assert checkpoint.damaged == []


def test_a_new_store_holds_no_checkpoint(tmp_path):
    assert CheckpointStore(tmp_path / "missing", 2).load() is None
    with pytest.raises(ConfigError, match="none was written"):
        newest_state(tmp_path / "missing")


def test_blocks_are_written_once(tmp_path):
    store = CheckpointStore(tmp_path, 2)
    save(store, 1, blocks(0, 1000))
    size = (tmp_path / segments(tmp_path)[0]).stat().st_size
    save(store, 2, blocks(0, 1001))
    first, second = segments(tmp_path)
    assert (tmp_path / first).stat().st_size == size
    assert (tmp_path / second).stat().st_size < 100
    save(store, 3, blocks(0, 1001))  # no new blocks
    assert segments(tmp_path) == [first, second]
    assert list(load(tmp_path)[1].blocks) == contents(blocks(0, 1001))


def test_the_last_ones_are_kept_with_all_they_need(tmp_path):
    store = CheckpointStore(tmp_path, 2)
    for number in range(12):  # the replay moves on by three blocks and holds five
        save(store, number, blocks(3 * number, 3 * number + 5))
        manifests = [name for name in names(tmp_path) if name.endswith(".json")]
        assert len(manifests) == min(2, number + 1)
        for age, manifest in enumerate(reversed(manifests)):
            _, checkpoint = load(tmp_path)
            first = 3 * (number - age)
            kept = [(k, m) for k, m in checkpoint.blocks if k >= first]
            assert kept == contents(blocks(first, first + 5))
            (tmp_path / manifest).rename(tmp_path / f"aside-{manifest}")
        for manifest in manifests:
            (tmp_path / f"aside-{manifest}").rename(tmp_path / manifest)
    assert len(names(tmp_path)) < 10


def test_names_sort_in_the_order_of_writing_for_ever(tmp_path):
    store = CheckpointStore(tmp_path, 1)
    save(store, 1, [])
    (tmp_path / "000000000001.json").rename(tmp_path / "000000099999.json")
    (tmp_path / "000000000001.state").unlink()
    store, number = CheckpointStore(tmp_path, 3), 0
    for number in range(3):
        save(store, number, blocks(0, number))
    assert store.newest == "000000100002"
    assert load(tmp_path)[1].state["counters"]["updates"] == number


@pytest.mark.parametrize("suffix", ["json", "state", "blocks"])
@pytest.mark.parametrize("damage", ["flip", "truncate", "remove", "replace"])
def test_the_one_before_a_damaged_one_is_used_and_continued(suffix, damage, tmp_path):
    store = CheckpointStore(tmp_path, 2)
    save(store, 1, blocks(0, 4))
    save(store, 2, blocks(0, 8))
    file = tmp_path / f"{store.newest}.{suffix}"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 16
    file.unlink()
    if damage != "remove":
        damaged = {"flip": content, "truncate": content[: len(content) // 2], "replace": b"{}"}
        file.write_bytes(damaged[damage])

    store, checkpoint = load(tmp_path)
    is_gone = suffix == "json" and damage == "remove"
    assert len(checkpoint.damaged) == (not is_gone)
    assert all(file.name in text for text in checkpoint.damaged)
    assert checkpoint.state["counters"]["updates"] == 1
    assert list(checkpoint.blocks) == contents(blocks(0, 4))

    # The replay goes on with other blocks under the ids of the lost blocks.
    live = blocks(0, 4) + blocks(4, 9, salt="'")
    save(store, 3, live)
    store, checkpoint = load(tmp_path)
    assert checkpoint.damaged == []
    assert checkpoint.state["counters"]["updates"] == 3
    assert list(checkpoint.blocks) == contents(live)
    save(store, 4, live[2:] + blocks(9, 11))
    assert list(load(tmp_path)[1].blocks)[-9:] == contents(live[2:] + blocks(9, 11))


def test_nothing_usable_is_an_error_that_names_all(tmp_path):
    store = CheckpointStore(tmp_path, 2)
    save(store, 1, [])
    save(store, 2, [])
    for path in tmp_path.glob("*.state"):
        path.write_bytes(b"foreign")
    before = names(tmp_path)
    with pytest.raises(ConfigError, match=r"no usable checkpoint: .*002\.state.*001\.state"):
        CheckpointStore(tmp_path, 2).load()
    assert names(tmp_path) == before


def test_blocks_that_all_share_may_be_lost_but_not_the_run(tmp_path):
    store = CheckpointStore(tmp_path, 2)
    for number in range(1, 4):
        save(store, number, blocks(0, 4 * number))
    (tmp_path / "000000000002.blocks").write_bytes(b"rotten")
    store, checkpoint = load(tmp_path)
    assert checkpoint.name == "000000000003"
    assert checkpoint.first_block == 8
    assert list(checkpoint.blocks) == contents(blocks(8, 12))
    assert checkpoint.damaged == ["000000000002.blocks has 6 bytes, not 128"]
    save(store, 4, blocks(8, 14))
    checkpoint = load(tmp_path)[1]
    assert checkpoint.first_block == 0
    assert list(checkpoint.blocks) == contents(blocks(8, 14))

    for path in tmp_path.glob("*.blocks"):
        path.write_bytes(b"rotten")
    checkpoint = load(tmp_path)[1]
    assert checkpoint.name == "000000000004"
    assert checkpoint.first_block == 14
    assert list(checkpoint.blocks) == []


def test_a_state_is_read_without_its_replay(tmp_path):
    store = CheckpointStore(tmp_path, 2)
    save(store, 1, blocks(0, 3))
    (tmp_path / segments(tmp_path)[0]).unlink()
    assert newest_state(tmp_path)[0]["counters"] == {"updates": 1}


def test_counters_are_those_of_the_newest_readable_manifest(tmp_path):
    assert newest_counters(tmp_path / "missing") == {}
    store = CheckpointStore(tmp_path, 2)
    for number in (1, 2):
        save(store, number, blocks(0, number))
    assert newest_counters(tmp_path) == {"updates": 2}
    (tmp_path / "000000000002.json").write_text("rotten")
    assert newest_counters(tmp_path) == {"updates": 1}


def test_leftovers_of_a_killed_write_are_removed(tmp_path):
    save(CheckpointStore(tmp_path, 2), 1, blocks(0, 3))
    for name in ("000000000002.blocks", "000000000002.state", ".000000000002.json.partial"):
        (tmp_path / name).write_bytes(b"half a file")
    store, checkpoint = load(tmp_path)
    assert checkpoint.state["counters"]["updates"] == 1
    save(store, 2, blocks(0, 4))
    assert len(names(tmp_path)) == 6
    assert list(load(tmp_path)[1].blocks) == contents(blocks(0, 4))


def test_a_disk_that_refuses_anywhere_costs_one_checkpoint(tmp_path, monkeypatch):
    real = {name: getattr(os, name) for name in ("fsync", "replace")}
    rng = random.Random(0)

    def refuse(name, countdown):
        def call(*args, **kwargs):
            countdown[0] -= 1
            if countdown[0] == 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real[name](*args, **kwargs)

        return call

    store, live = CheckpointStore(tmp_path, 2), []
    num_refused = 0
    for number in range(40):
        live = live[2:] + blocks(5 * number, 5 * number + 5)
        with monkeypatch.context() as patch:
            countdown = [rng.randrange(1, 12)]
            for name in real:
                patch.setattr(os, name, refuse(name, countdown))
            store.save(state(number), live)
            error = store.wait()
        if error is None:
            expected = number, contents(live)
        else:
            num_refused += 1
            assert error.errno == errno.ENOSPC
        if number and "expected" in locals():
            _, checkpoint = load(tmp_path)
            oldest = expected[1][0][0]
            assert checkpoint.damaged == []
            assert checkpoint.state["counters"]["updates"] == expected[0]
            assert [(k, m) for k, m in checkpoint.blocks if k >= oldest] == expected[1]
            assert not [name for name in names(tmp_path) if name.endswith(".partial")]
    assert 5 < num_refused < 35


def test_a_mistake_in_the_writer_is_not_taken_for_a_full_disk(tmp_path):
    store = CheckpointStore(tmp_path, 2)
    store.save(state(1), [(0, None)])
    with pytest.raises(AttributeError):
        store.wait()
    assert store.newest is None
    assert names(tmp_path) == []


def test_training_does_not_wait_for_the_disk(tmp_path):
    may_go_on = threading.Event()
    store = CheckpointStore(tmp_path, 2, before_commit=lambda: may_go_on.wait() and None)
    live = state(1)
    store.save(live, blocks(0, 3))
    live["weight"].fill_(99.0)  # as the next update would
    assert store.is_writing
    assert store.newest is None
    may_go_on.set()
    assert store.wait() is None
    assert not store.is_writing
    assert load(tmp_path)[1].state["weight"].tolist() == [1.0, 1.0, 1.0]
