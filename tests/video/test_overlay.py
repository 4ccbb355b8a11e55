import numpy as np
import pytest

from agent57.types import Played
from agent57.video.film import GifWriter, check_video, even
from agent57.video.overlay import MIN_HEIGHT, PANEL, POLICY, Overlay, enlarge


def played(num_values: int, num_actions: int, action: int = 1) -> Played:
    fields = dict.fromkeys(Played.__slots__, np.zeros(1))
    rng = np.random.default_rng(0)
    fields["value"] = rng.normal(size=(num_values, 1, num_actions)).astype(np.float32)
    fields["action"] = np.array([action])
    fields["extrinsic"] = np.array([3.0])
    return Played(**fields)


def test_pixels_stay_square_and_sharp():
    picture = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    large = enlarge(picture)
    factor = large.shape[0] // 2
    assert large.shape == (2 * factor, 3 * factor, 3)
    np.testing.assert_array_equal(large[::factor, ::factor], picture)
    big = np.zeros((500, 700, 3), np.uint8)
    assert enlarge(big).shape == big.shape


@pytest.mark.parametrize(("num_values", "num_actions"), [(2, 18), (1, 2), (2, 60)])
def test_the_panel_stands_beside_the_game(num_values, num_actions):
    game = np.full((210, 160, 3), 77, np.uint8)
    overlay = Overlay("agent57 on pong", "arm 0")
    novelty = 0.5 if num_values == 2 else None
    first = overlay.draw(game, played(num_values, num_actions), novelty)
    assert first.shape[1] == 320 + PANEL
    assert first.shape[0] >= MIN_HEIGHT
    top = (first.shape[0] - 420) // 2
    assert (first[top : top + 420, :320] == 77).all()
    second = overlay.draw(game, played(num_values, num_actions), novelty)
    assert (first[:60, 320:] != second[:60, 320:]).any()  # the score has changed


def test_actions_are_named_where_names_are_known():
    game = np.zeros((210, 160, 3), np.uint8)
    overlay = Overlay("a", "b")
    numbered = overlay.draw(game, played(2, 3), None)
    named = Overlay("a", "b")
    named.action_names = ("noop", "fire", "up")
    drawn = named.draw(game, played(2, 3), None)
    assert (numbered[120:, 320:] != drawn[120:, 320:]).any()
    again = Overlay("a", "b")
    again.action_names = ("0", "1", "2")
    np.testing.assert_array_equal(again.draw(game, played(2, 3), None), numbered)


def test_a_policy_is_drawn_from_zero_to_one():
    game = np.zeros((210, 160, 3), np.uint8)
    without = Overlay("a", "b").draw(game, played(2, 4), 0.5)
    assert not (without == POLICY).all(-1).any()
    policy = np.array([0.0, 1.0, 0.5, 0.25], np.float32)
    drawn = (Overlay("a", "b").draw(game, played(2, 4), 0.5, policy) == POLICY).all(-1)
    lengths = drawn[130:].sum(1)  # below the labels; rows of pixels
    longest = lengths.max()
    found = [lengths[i] for i in np.flatnonzero(np.diff(lengths.astype(bool))) + 1 if lengths[i]]
    np.testing.assert_allclose(found, 1 + policy * (longest - 1), atol=1)


def test_equal_values_can_be_drawn():
    step = played(2, 3)
    step.value[:] = 1.0
    Overlay("a", "b").draw(np.zeros((16, 16, 3), np.uint8), step, 0.0)


def test_sides_become_even():
    assert even(np.ones((3, 4, 3), np.uint8)).shape == (4, 4, 3)


def test_a_long_gif_is_cut(tmp_path, monkeypatch):
    from PIL import Image

    monkeypatch.setattr("agent57.video.film.MAX_GIF_FRAMES", 3)
    writer = GifWriter(tmp_path / "a.gif", 10)
    for i in range(6):
        writer.add(np.full((8, 8, 3), 40 * i, np.uint8))
    writer.close()
    with Image.open(tmp_path / "a.gif") as image:
        assert image.n_frames == 3


def test_a_video_needs_a_known_ending(tmp_path):
    with pytest.raises(ValueError, match="must end in .mp4 or .gif"):
        check_video(tmp_path / "a.webm")
