"""By contract: TensorBoard reads what was written; a later session takes over from an earlier."""

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from agent57.storage.events import EventFile


def test_a_resumed_session_replaces_what_came_after_its_checkpoint(tmp_path):
    first = EventFile(tmp_path, 1)
    for frames in (10, 20, 30):
        first.write({"loss": frames / 10, "frames": frames}, frames)
    first.close()
    second = EventFile(tmp_path, 11)
    second.write({"loss": 9.0}, 20)
    second.close()
    curves = EventAccumulator(str(tmp_path))
    curves.Reload()
    points = [(point.step, point.value) for point in curves.Scalars("loss")]
    assert points == [(10, 1.0), (20, 9.0)]
