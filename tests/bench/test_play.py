import numpy as np

from agent57.bench.play import Rows, folded, insert, joined, make_assembler, make_replay, record
from agent57.config import ReplayConfig

STEPS = 90


def test_recorded_play_comes_back_out_of_the_replay() -> None:
    recording = joined([record("pong", 1, STEPS, seed) for seed in range(2)])
    rows, config = Rows(recording), ReplayConfig(threads=1)
    replay = make_replay(config)
    insert(rows.play(2 * STEPS), replay, make_assembler(config, rows.num_lanes))
    replay.check_valid()
    assert replay.num_windows_inserted > 0
    batch = replay.sample(4)
    stored = batch.observation[:80].numpy()  # [T, B, ...]
    for column in range(4):
        start = int(batch.start[column])
        lanes = [recording.observation[lane, start : start + 80] for lane in range(2)]
        assert any(np.array_equal(stored[: len(lane), column], lane) for lane in lanes)


def test_running_episodes_are_truncated_where_a_recording_starts_over() -> None:
    rows = Rows(record("pong", 1, 5, seed=0))
    ended = [bool(played.truncated[0]) for played in rows.play(12)]
    assert ended == [False] * 4 + [True] + [False] * 4 + [True] + [False] * 2


def test_pieces_of_a_lane_are_lanes_of_their_own() -> None:
    whole = record("breakout", 2, 400, seed=3)
    pieces = folded(whole, 4)
    assert whole.terminated.any()
    for lane, piece, t in [(0, 0, 0), (0, 3, 99), (1, 1, 7), (1, 2, 0)]:
        there, here = (lane, 100 * piece + t), (4 * lane + piece, t)
        assert pieces.action[here] == whole.action[there]
        assert pieces.reward[here] == whole.reward[there]
        assert np.array_equal(pieces.observation[here], whole.observation[there])
    assert np.array_equal(
        pieces.observation[:, 100], whole.observation[:, 100::100].reshape(8, 1, 84, 84)
    )
    assert {(lane // 4, 100 * (lane % 4) + t) for lane, t in pieces.final_observation} == set(
        whole.final_observation
    )
    for lane, t in pieces.final_observation:
        assert pieces.terminated[lane, t]
