"""Which part is called when, what is counted and what is lost, without Ray: see `stage`."""

import itertools
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent57.config import Config
from agent57.data_parallel import LearnerMissing
from agent57.learner import NonFiniteUpdate
from agent57.runtime.cluster.conductor import train
from agent57.runtime.cluster.learners import UPDATES_AHEAD
from agent57.runtime.cluster.totals import MAX_FAILURES, Died, PartLost
from agent57.runtime.cluster.workers import (
    ActorWorker,
    EvaluatorWorker,
    LearnerWorker,
    ShardWorker,
    unpacked,
)
from agent57.storage.checkpoint import CheckpointStore
from tests.runtime.cluster.stage import Play, without_a_target
from tests.small import Sitting, changed, same_tree, small_config


def cluster_config(agent: str = "agent57", **sections: dict[str, Any]) -> Config:
    """Return the configuration of two actors with two lanes on a toy."""
    config = small_config(
        agent,
        env={"name": "toy/cue"},
        actor={"lanes": 4, "pull_period": 6},
        cluster={"actors": 2},
        run={"runtime": "cluster", "frames": 300, "threads": 1},
    )
    return changed(config, **sections)


CONFIG = cluster_config()
MEME = cluster_config("meme")
SHARDED = cluster_config(cluster={"actors": 4, "shards": 2}, actor={"lanes": 8})


def save(play: Play, folder: Path, store: CheckpointStore | None = None) -> CheckpointStore:
    """Write a checkpoint as `Saver` does."""
    store = store or CheckpointStore(folder, keep=2)
    parts = play.cluster.state_dict()
    state = {"counters": play.cluster.counters(), "parts": parts}
    store.save(state, play.cluster.blocks(store.next_block), play.cluster.oldest_block)
    assert store.wait() is None
    return store


def load(config: Config, folder: Path) -> Play:
    """Return a new cluster that goes on from the last checkpoint."""
    checkpoint = CheckpointStore(folder, keep=2).load()
    assert checkpoint is not None
    play = Play(config, folder)
    play.cluster.load_state_dict(checkpoint.state["parts"], checkpoint.blocks, 0)
    return play


def held(play: Play) -> int:
    """Return the number of transitions in the shards."""
    shards = play.calls.living(ShardWorker)
    return sum(shard.worker.summary()["replay/transitions"] for shard in shards)


def weights_of(play: Play) -> list[float]:
    """Return the sum of the weights in each shard."""
    return [shard.worker.add([]).weight for shard in play.calls.living(ShardWorker)]


def waiting(play: Play) -> int:
    return sum(actor.waiting for actor in play.cluster.players.actors)


@pytest.mark.parametrize("config", [CONFIG, SHARDED, MEME])
def test_every_step_is_in_the_replay_or_about_to_be(config: Config, tmp_path: Path) -> None:
    play = Play(config, tmp_path)
    play.run()
    totals = play.cluster.totals
    assert config.run.frames <= totals.steps < config.run.frames + 6 * config.lanes_per_actor
    assert held(play) + waiting(play) == totals.steps
    assert totals.lost_transitions == 0
    assert len(play.calls.living(ShardWorker)) == config.cluster.shards
    assert {e.lane for e in play.journal.episodes if e.source == "actor"} == set(
        range(config.actor.lanes)
    )


@pytest.mark.parametrize(("samples_per_insert", "seed"), [(1.0, 0), (4.0, 1)])
def test_samples_per_insert_holds_whoever_is_fast(
    samples_per_insert: float, seed: int, tmp_path: Path
) -> None:
    # Answers come in random order, because any part may be slow.
    spi = {"samples_per_insert": samples_per_insert}
    play = Play(cluster_config(replay=spi, run={"frames": 800}), tmp_path)
    rng = np.random.default_rng(seed)
    bias = rng.random(1000)
    play.calls.choose = lambda answers: answers[int(bias[len(answers)] * len(answers))]
    play.run()
    totals = play.cluster.totals
    sampled = totals.updates * CONFIG.learner.batch_size
    inserted = totals.windows - CONFIG.replay.min_windows
    assert sampled / inserted == pytest.approx(samples_per_insert, rel=0.05)
    assert play.cluster.live()["cluster/samples_per_insert"] == sampled / inserted


@pytest.mark.parametrize("slow", [ActorWorker, ShardWorker, LearnerWorker, EvaluatorWorker])
def test_queues_are_bounded_whoever_is_slow(slow: type, tmp_path: Path) -> None:
    play = Play(CONFIG, tmp_path)
    longest: dict[str, int] = {}

    def is_slow(answer: Any) -> bool:
        return any(answer in p.calls for p in play.calls.living(slow))

    def patient(answers: list[Any]) -> Any:
        quick = [answer for answer in answers if not is_slow(answer)]
        return (quick or answers)[0]

    def until(cluster: Any) -> bool:
        for name, value in cluster.live().items():
            longest[name] = max(longest.get(name, 0), value)
        longest["calls"] = max(longest.get("calls", 0), play.calls.num_under_way)
        return cluster.is_finished

    play.calls.choose = patient
    play.run(until)
    assert longest["cluster/updates_under_way"] <= UPDATES_AHEAD
    assert longest["cluster/adds_under_way"] <= 2 * CONFIG.cluster.actors
    assert longest["calls"] <= 20
    assert play.cluster.totals.steps >= CONFIG.run.frames


def test_batches_are_drawn_before_the_learner_needs_them(tmp_path: Path) -> None:
    play = Play(cluster_config(replay={"samples_per_insert": 8.0}), tmp_path)
    seen = []

    def until(cluster: Any) -> bool:
        if cluster.totals.updates > 5 and cluster.players.num_frames < 225:
            seen.append(cluster.learners.num_under_way)
        return cluster.is_finished

    play.run(until)
    assert min(seen[5:]) >= UPDATES_AHEAD - 1  # one update may just have ended


def test_versions_of_the_weights_are_as_far_apart_as_asked_for(tmp_path: Path) -> None:
    play = Play(cluster_config(cluster={"publish_seconds": 1e6}), tmp_path)
    play.run()
    assert play.cluster.totals.updates > 0
    assert play.cluster.learners.published.version == 0


def test_weights_are_published_once_per_version_and_only_when_wanted(tmp_path: Path) -> None:
    play = Play(CONFIG, tmp_path)
    play.run()
    (learner,) = play.calls.living(LearnerWorker)
    assert 1 < learner.log.count("weights") <= 1 + learner.log.count("update")
    num_calls = sum(p.log.count("play") for p in play.calls.living(ActorWorker))
    assert learner.log.count("weights") <= 1 + num_calls
    live = play.cluster.live()
    # The count leaves out the weights that are published at the start.
    assert live["cluster/publications"] == learner.log.count("weights") - 1
    calls = sum(len(p.log) for p in play.calls.living(ActorWorker))
    assert live["cluster/answers"] > calls
    versions = [actor.version for actor in play.cluster.players.actors]
    assert min(versions) > 0


def test_shards_together_are_drawn_from_like_one_replay_by_law(tmp_path: Path) -> None:
    # A shard's share of draws is its share of weight. Probabilities over all shards add up to 1.
    play = Play(changed(SHARDED, run={"frames": 480}), tmp_path)
    play.run(lambda cluster: cluster.totals.windows > 60)
    play.calls.settle()
    storage = play.cluster.shards
    shards = play.calls.living(ShardWorker)
    weights = np.array(weights_of(play))
    counts, totals = np.zeros(2), np.zeros(2)
    for _ in range(150):
        for part in storage.draw(4, lambda: None, lambda: None):
            arrays = part.arrays.get()
            counts[part.shard.index] += len(arrays["key"])
            totals[part.shard.index] += (1 / arrays["probability"]).sum()
        play.calls.settle()
    np.testing.assert_allclose(counts / counts.sum(), weights / weights.sum(), atol=0.05)
    # The mean of 1 / p over draws is the number of windows.
    windows = sum(shard.worker.summary()["replay/windows"] for shard in shards)
    assert totals.sum() / counts.sum() == pytest.approx(windows, rel=0.1)


def test_an_actor_that_dies_is_replaced_and_counted(tmp_path: Path) -> None:
    play = Play(CONFIG, tmp_path)
    play.run(lambda cluster: cluster.totals.steps >= 150)
    actor = play.cluster.players.actors[0]
    assert actor.lasting is not None
    before, lost = unpacked(actor.lasting), actor.waiting
    actor.process.is_dead = True
    play.run()
    totals = play.cluster.totals
    assert totals.actor_restarts == 1
    assert totals.lost_transitions == lost
    assert held(play) + waiting(play) + lost == totals.steps
    assert len(play.calls.living(ActorWorker)) == 2
    # Its successor continues the random streams and keeps the bandits' statistics.
    after = unpacked(actor.lasting)
    assert after["num_steps"] > before["num_steps"]
    selected = [c["num_selected"] for c in before["controllers"]]
    later = [c["num_selected"] for c in after["controllers"]]
    assert all(b > a for a, b in zip(selected, later, strict=True))


def test_an_actor_that_dies_again_and_again_ends_the_run(tmp_path: Path) -> None:
    play = Play(CONFIG, tmp_path)
    play.run(lambda cluster: cluster.totals.steps >= 100)

    def kill(cluster: Any) -> bool:
        cluster.players.actors[1].process.is_dead = True
        return cluster.is_finished

    with pytest.raises(PartLost, match=f"actor 1 died {MAX_FAILURES} times in a row"):
        play.run(kill)


def test_an_evaluator_that_dies_goes_on_with_its_bandit(tmp_path: Path) -> None:
    play = Play(cluster_config(run={"frames": 960}), tmp_path)
    play.run(lambda cluster: cluster.totals.steps >= 480)
    before = play.cluster.players.summary()["evaluator/return"]
    num_before = sum(e.source == "evaluator" for e in play.journal.episodes)
    (victim,) = play.calls.living(EvaluatorWorker)
    victim.is_dead = True
    play.run(lambda cluster: cluster.totals.evaluator_restarts == 1)
    play.calls.settle()
    assert play.cluster.players.summary()["evaluator/return"] == before
    (successor,) = play.calls.living(EvaluatorWorker)
    *_, version = successor.heard["start"]
    assert version > 0  # the version of the weights that it starts with
    play.run()
    phases = [e.phase for e in play.journal.episodes if e.source == "evaluator"]
    assert len(phases) > num_before
    assert phases == list(itertools.islice(itertools.cycle(["train"] * 5 + ["evaluate"] * 5),
                                           len(phases)))  # fmt: skip


def test_a_shard_that_dies_is_back_as_of_the_last_checkpoint(tmp_path: Path) -> None:
    play = Play(SHARDED, tmp_path)
    play.run(lambda cluster: cluster.totals.steps >= 150)
    save(play, tmp_path)
    kept = play.calls.living(ShardWorker)[1].worker.summary()["replay/transitions"]
    play.run(lambda cluster: cluster.totals.steps >= 250)
    play.calls.settle()
    victim = play.calls.living(ShardWorker)[1]
    lost = victim.worker.summary()["replay/transitions"] - kept
    victim.is_dead = True
    play.run()
    totals = play.cluster.totals
    assert lost > 0
    assert (totals.shard_restarts, totals.lost_transitions) == (1, lost)
    assert held(play) + waiting(play) + lost == totals.steps
    assert play.said == [
        f"replay shard 1 died and is back as of the last checkpoint: {lost} transitions are lost"
    ]
    # Loading checks that the contents of the shards are consistent.
    save(play, tmp_path)
    other = load(SHARDED, tmp_path)
    assert held(other) == held(play)
    assert weights_of(other) == pytest.approx(weights_of(play))


def test_what_a_shard_lost_is_counted_once_if_it_dies_again(tmp_path: Path) -> None:
    play = Play(CONFIG, tmp_path)
    play.run(lambda cluster: cluster.totals.steps >= 100)
    save(play, tmp_path)
    for steps in (150, 200):
        play.run(lambda cluster, steps=steps: cluster.totals.steps >= steps)
        play.calls.living(ShardWorker)[0].is_dead = True
    play.run()
    totals = play.cluster.totals
    assert totals.shard_restarts == 2
    assert held(play) + waiting(play) + totals.lost_transitions == totals.steps


def test_a_replay_that_is_empty_again_is_filled_again(tmp_path: Path) -> None:
    """This holds even if actors were far ahead of the learner; otherwise both wait for ever."""
    play = Play(CONFIG, tmp_path)
    play.run(lambda cluster: True)
    save(play, tmp_path)
    play.run(lambda cluster: cluster.totals.updates >= 5)
    play.calls.settle()
    play.calls.living(ShardWorker)[0].is_dead = True
    play.cluster.shards.state_dict()  # calls every shard, and so notices the dead one
    play.cluster.totals.windows += 1000  # the learner has seen none of these
    assert not play.cluster.shards.has_windows
    play.cluster.call_all_who_may()
    assert play.cluster.players.num_playing > 0


def test_a_shard_that_dies_again_and_again_ends_the_run(tmp_path: Path) -> None:
    play = Play(CONFIG, tmp_path)
    play.run(lambda cluster: cluster.totals.steps >= 150)
    save(play, tmp_path)

    def kill(cluster: Any) -> bool:
        for process in play.calls.living(ShardWorker):
            process.is_dead = True
        return cluster.is_finished

    with pytest.raises(PartLost, match=f"replay shard 0 died {MAX_FAILURES} times in a row"):
        play.run(kill)


@pytest.mark.parametrize("kind", [ShardWorker, LearnerWorker, EvaluatorWorker, ActorWorker])
def test_what_died_unnoticed_does_not_cost_the_checkpoint(kind: type, tmp_path: Path) -> None:
    play = Play(CONFIG, tmp_path)
    play.run(lambda cluster: cluster.totals.updates >= 5)
    save(play, tmp_path)
    play.run(lambda cluster: cluster.totals.updates >= 10)
    play.calls.settle()
    play.calls.living(kind)[0].is_dead = True
    save(play, tmp_path)
    other = load(CONFIG, tmp_path)
    totals = other.cluster.totals
    assert held(other) + waiting(other) + totals.lost_transitions == totals.steps


def test_nothing_is_lost_if_a_shard_dies_with_blocks_on_their_way(tmp_path: Path) -> None:
    play = Play(CONFIG, tmp_path)
    play.run(lambda cluster: cluster.totals.steps >= 150)
    save(play, tmp_path)
    play.run(lambda cluster: cluster.live()["cluster/adds_under_way"] > 0)
    assert play.cluster.shards.windows_on_the_way >= 0
    play.calls.living(ShardWorker)[0].is_dead = True
    play.run()
    totals = play.cluster.totals
    assert held(play) + waiting(play) + totals.lost_transitions == totals.steps
    assert play.cluster.shards.windows_on_the_way == 0


def test_blocks_that_went_with_a_node_are_counted_as_lost(tmp_path: Path) -> None:
    play = Play(CONFIG, tmp_path)
    play.run(lambda cluster: cluster.totals.steps >= 150)
    play.run(lambda cluster: cluster.live()["cluster/adds_under_way"] > 0)
    shard = play.calls.living(ShardWorker)[0]
    shard.unfinished("add").is_lost = True
    for process in play.calls.living(ActorWorker):  # all actors of the dead shard's node
        process.is_dead = True
    play.run()
    totals = play.cluster.totals
    assert totals.actor_restarts == 2
    assert totals.lost_transitions > 0
    assert held(play) + waiting(play) + totals.lost_transitions == totals.steps


@pytest.mark.parametrize("num_learners", [1])
def test_a_learner_that_dies_is_back_as_of_the_last_checkpoint(
    num_learners: int, tmp_path: Path
) -> None:
    play = Play(cluster_config(cluster={"learners": num_learners}), tmp_path)
    play.run(lambda cluster: cluster.totals.updates >= 10)
    save(play, tmp_path)
    saved = play.cluster.totals.updates
    play.run(lambda cluster: cluster.totals.updates >= saved + 7)
    version = play.cluster.learners.published.version
    play.calls.living(LearnerWorker)[0].is_dead = True
    play.run(lambda cluster: cluster.totals.learner_restarts == 1)
    totals = play.cluster.totals
    assert totals.updates == saved
    assert totals.lost_updates >= 7
    # With a smaller version, old weights would seem newer.
    assert play.cluster.learners.published.version >= version
    play.run()
    assert "the learner died" in play.said[0]
    worker = play.calls.living(LearnerWorker)[0].worker
    assert worker.weights()[1] == totals.updates
    inserted = totals.windows - CONFIG.replay.min_windows
    ratio = totals.updates * CONFIG.learner.batch_size / inserted
    assert ratio == pytest.approx(CONFIG.replay.samples_per_insert, rel=0.05)


def test_a_learner_whose_fellow_is_missing_is_brought_back_with_it(tmp_path: Path) -> None:
    """The surviving learner notices first, because its exchange fails."""
    play = Play(CONFIG, tmp_path)
    play.run(lambda cluster: cluster.totals.updates >= 5)
    save(play, tmp_path)

    def missing(*_: object) -> None:
        raise LearnerMissing("connection closed by peer")

    play.calls.living(LearnerWorker)[0].worker.update = missing
    play.run()
    assert play.cluster.totals.learner_restarts == 1


@pytest.mark.parametrize("kind", [ShardWorker, LearnerWorker])
def test_without_a_checkpoint_the_run_says_why_it_ends(kind: type, tmp_path: Path) -> None:
    play = Play(CONFIG, tmp_path)
    play.run(lambda cluster: cluster.totals.updates >= 3)
    play.calls.living(kind)[0].is_dead = True
    with pytest.raises(PartLost, match="died and there is no checkpoint to bring it back from"):
        play.run()


def test_what_a_part_raises_ends_the_run(tmp_path: Path) -> None:
    play = Play(CONFIG, tmp_path)
    play.run(lambda cluster: cluster.totals.updates >= 3)
    worker = play.calls.living(LearnerWorker)[0].worker
    worker.start(without_a_target(worker.state_dict()), "", 0)
    with pytest.raises(NonFiniteUpdate) as caught:
        play.run()
    assert len(caught.value.batch.key) == CONFIG.learner.batch_size


@pytest.mark.parametrize("config", [CONFIG, SHARDED, MEME])
def test_a_run_that_is_loaded_is_the_one_that_was_saved(config: Config, tmp_path: Path) -> None:
    play = Play(config, tmp_path)
    play.run(lambda cluster: cluster.totals.steps >= 150)
    save(play, tmp_path)
    other = load(config, tmp_path)
    assert same_tree(play.cluster.state_dict(), other.cluster.state_dict())
    assert asdict(play.cluster.totals) == asdict(other.cluster.totals)
    other.run()
    totals = other.cluster.totals
    assert held(other) + waiting(other) == totals.steps >= config.run.frames
    assert totals.updates > play.cluster.totals.updates


def test_later_checkpoints_write_only_what_is_new(tmp_path: Path) -> None:
    play = Play(SHARDED, tmp_path)
    play.run(lambda cluster: cluster.totals.steps >= 150)
    store = save(play, tmp_path)
    first = {path.name: path.read_bytes() for path in tmp_path.glob("*.blocks")}
    for shard in play.calls.living(ShardWorker):
        shard.log.clear()
    play.run()
    save(play, tmp_path, store)
    assert len(first) == 1
    files = {path.name for path in tmp_path.glob("*.blocks")}
    assert len(files) == 2
    assert set(first) < files
    other = load(SHARDED, tmp_path)
    assert held(other) == held(play)
    assert dict(other.cluster.blocks(0)).keys() == dict(play.cluster.blocks(0)).keys()


def test_a_replay_that_overflows_is_saved_and_loaded(tmp_path: Path) -> None:
    config = changed(SHARDED, replay={"capacity": 200}, run={"frames": 360})
    play = Play(config, tmp_path)
    store = None
    for steps in (200, 250, 300):
        play.run(lambda cluster, steps=steps: cluster.totals.steps >= steps)
        store = save(play, tmp_path, store)
    other = load(config, tmp_path)
    assert held(other) == held(play) <= 200
    assert play.cluster.oldest_block > 0
    other.run()


def test_an_actor_without_a_place_does_not_hold_the_others_up(tmp_path: Path) -> None:
    play = Play(CONFIG, tmp_path)
    play.run(lambda cluster: cluster.totals.steps >= 150)

    def others(answers: list[Any]) -> Any:
        return next((a for a in answers if a not in play.calls.patient), answers[0])

    play.cluster.players.actors[0].process.is_dead = True
    play.calls.choose = others
    play.run(lambda cluster: cluster.totals.steps >= 250)
    assert play.cluster.live()["cluster/actors_without_place"] == 1
    save(play, tmp_path)
    other = load(CONFIG, tmp_path)
    assert other.cluster.players.actors[0].lasting is not None
    other.run()
    assert other.cluster.totals.steps >= CONFIG.run.frames


def test_a_checkpoint_during_which_a_process_dies_is_not_written(tmp_path: Path) -> None:
    play = Play(CONFIG, tmp_path)
    play.run(lambda cluster: cluster.totals.steps >= 100)
    save(play, tmp_path)
    victim = play.calls.living(ShardWorker)[0]

    def die() -> None:
        victim.is_dead = True
        raise Died("in the midst of it")

    victim.worker.state_dict = die
    with pytest.raises(OSError, match="a process died while the run was saved: in the midst of it"):
        play.cluster.state_dict()
    play.run()
    assert play.cluster.totals.shard_restarts == 1
    play.cluster.state_dict()


def test_a_learner_that_cannot_be_brought_back_ends_the_run(tmp_path: Path) -> None:
    play = Play(CONFIG, tmp_path)
    play.run(lambda cluster: cluster.totals.updates >= 2)
    save(play, tmp_path)
    spawn = play.calls.spawn

    def stillborn(kind: type, *args: Any, **where: Any) -> Any:
        process = spawn(kind, *args, **where)
        process.is_dead = kind is LearnerWorker
        return process

    play.calls.spawn = stillborn
    play.calls.living(LearnerWorker)[0].is_dead = True
    with pytest.raises(PartLost, match="a process that the run needs has died"):
        train(play.cluster, play.journal, Sitting())


def test_players_that_die_at_a_checkpoint_are_replaced_and_it_goes_on(tmp_path: Path) -> None:
    play = Play(CONFIG, tmp_path)
    play.run(lambda cluster: cluster.totals.steps >= 100)
    play.calls.settle()
    acting = play.cluster.players
    dead = [acting.processes()[0], acting.processes()[-1]]
    for process in dead:
        process.is_dead = True
    parts = play.cluster.state_dict()
    assert [actor["whole"] is None for actor in parts["actors"]] == [True, False]
    assert parts["evaluator"] is None
    assert parts["evaluator_lasting"] is not None
    totals = play.cluster.totals
    assert (totals.actor_restarts, totals.evaluator_restarts) == (1, 1)
    waiting = sum(actor["waiting"] for actor in parts["actors"])
    assert held(play) + waiting + parts["tally"]["lost_transitions"] == totals.steps
    assert not set(dead) & set(acting.processes())
    play.run()
    assert totals.steps >= CONFIG.run.frames


def test_a_run_that_stops_starts_no_evaluator_anew(tmp_path: Path) -> None:
    play = Play(CONFIG, tmp_path)
    play.run(lambda cluster: cluster.totals.steps >= 100)
    play.calls.settle()
    play.calls.is_stopping = lambda: True
    evaluator = play.cluster.players.processes()[-1]
    evaluator.is_dead = True
    assert play.cluster.state_dict()["evaluator"] is None
    assert play.cluster.players.processes()[-1] is evaluator
