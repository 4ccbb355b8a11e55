"""Views of spaces: nothing is lost, and a part that cannot be seen is named."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from agent57.config import ConfigError, NetworkConfig
from agent57.envs.views import actions_of, part_names, view_of
from agent57.nets.torso import Trunk, prepare, prepare_fused

IMAGE = spaces.Box(0, 10, (7, 7, 3), np.uint8)
PICTURE = spaces.Box(0.0, 1.0, (40, 40, 3), np.float32)


def test_discrete_parts_are_one_hot_by_hand() -> None:
    space = spaces.MultiDiscrete([2, 3], start=[5, 0])
    assert view_of("x", space, ()).see(np.array([6, 2])).tolist() == [0, 1, 0, 0, 1]
    assert view_of("x", spaces.MultiBinary(3), ()).see(np.array([1, 0, 1])).tolist() == [1, 0, 1]
    assert view_of("x", spaces.Discrete(3, start=4), ()).see(5).tolist() == [0, 1, 0]


def test_boxes_of_any_shape_and_number_are_vectors() -> None:
    space = spaces.Box(-5, 5, (2, 2), np.int64)
    view = view_of("x", space, ())
    assert (view.kind, view.shape) == ("vector", (4,))
    assert view.see(np.array([[1, 2], [3, -4]])).tolist() == [1, 2, 3, -4]


def test_pictures_of_float_numbers_become_bytes() -> None:
    view = view_of("x", PICTURE, ())
    assert (view.kind, view.shape) == ("pixels", (3, 40, 40))
    image = np.zeros((40, 40, 3), np.float32)
    image[1, 2, 0], image[3, 4, 1] = 1.0, 0.5
    seen = view.see(image)
    assert (seen[0, 1, 2], seen[1, 3, 4], int(seen.sum())) == (255, 128, 383)


def test_parts_are_fused_and_come_back_in_the_network() -> None:
    space = spaces.Dict(
        goal=spaces.Box(-1, 1, (2,), np.float32),
        image=IMAGE,
        more=spaces.Tuple([spaces.Discrete(3), spaces.MultiBinary(2)]),
    )
    assert part_names(space) == ["goal", "image", "more.0", "more.1"]
    view = view_of("x", space, ())
    assert (view.kind, view.image_shape, view.max_value) == ("grid", (3, 7, 7), 10)
    space.seed(0)
    sample = space.sample()
    seen = torch.from_numpy(view.see(sample))[None]
    fused = prepare_fused(seen, view.image_shape, "grid", 10)
    image = torch.from_numpy(sample["image"]).permute(2, 0, 1)[None]
    beside = [*sample["goal"], *np.eye(3)[sample["more"][0]], *sample["more"][1]]
    torch.testing.assert_close(fused[:, :-7], prepare(image, "grid", 10).flatten(1))
    torch.testing.assert_close(fused[0, -7:], torch.tensor(np.array(beside, np.float32)))

    trunk = Trunk(NetworkConfig(), "grid", (12, 7, 7), 7)
    features = trunk(fused)
    assert features.shape == (1, trunk.num_features)
    torch.testing.assert_close(features[0, -7:], fused[0, -7:])
    torch.testing.assert_close(features[:, :-7], trunk.layers(prepare(image, "grid", 10)))


def test_parts_without_an_image_are_one_vector_and_alike_images_one_stack() -> None:
    both = spaces.Dict(a=spaces.Box(0, 1, (2,)), b=spaces.Discrete(2))
    assert view_of("x", both, ()).see({"a": [3, 4], "b": 1}).tolist() == [3, 4, 0, 1]
    eyes = spaces.Tuple([IMAGE, IMAGE])
    view = view_of("x", eyes, ())
    assert view.shape == (6, 7, 7)
    left, right = np.full((7, 7, 3), 1, np.uint8), np.full((7, 7, 3), 2, np.uint8)
    assert view.see((left, right))[:, 0, 0].tolist() == [1, 1, 1, 2, 2, 2]


def test_only_the_chosen_parts_are_seen() -> None:
    space = spaces.Dict(image=IMAGE, mission=spaces.Text(9), way=spaces.Discrete(4))
    assert view_of("x", space, ("image",)).shape == (3, 7, 7)
    assert view_of("x", space, ("image", "way")).image_shape == (3, 7, 7)
    assert view_of("x", IMAGE, ("image",)).shape == (3, 7, 7)  # as in settings of older runs


class Mission(spaces.Space[str]):
    """A space of text that is not Gymnasium's `Text`, as MiniGrid's missions."""


@pytest.mark.parametrize(
    ("space", "observe", "words"),
    [
        (spaces.Dict(image=IMAGE, mission=spaces.Text(9)), (), "'mission'.*text.*observe image"),
        (
            spaces.Dict(image=IMAGE, mission=Mission(dtype=str), way=spaces.Discrete(4)),
            (),
            "'mission'.*is text.*--env.observe image way$",
        ),
        (spaces.Dict(image=IMAGE), ("imge",), "env.observe names 'imge'.*image"),
        (spaces.Tuple([IMAGE, PICTURE]), (), "do not fit together"),
        (spaces.Sequence(spaces.Discrete(2)), (), "Sequence.*wrap it"),
        (spaces.Box(0, 1, (100, 100, 1, 1)), (), "wrap it"),
    ],
)
def test_what_cannot_be_seen_is_named(
    space: spaces.Space, observe: tuple[str, ...], words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        view_of("task", space, observe)
    assert "\n" not in str(caught.value)
    assert "task" in str(caught.value)


def test_numbers_beside_an_image_must_be_finite() -> None:
    view = view_of("x", spaces.Dict(image=IMAGE, goal=spaces.Box(-1, 1, (1,))), ())
    with pytest.raises(ValueError, match="not finite"):
        view.see({"image": np.zeros((7, 7, 3), np.uint8), "goal": [np.nan]})


def test_combined_actions_are_all_of_them_once() -> None:
    space = spaces.MultiDiscrete([2, 3], start=[1, 0])
    num_actions, meant = actions_of("x", space)
    found = [tuple(meant(index).tolist()) for index in range(num_actions)]
    assert found == [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]
    assert all(space.contains(meant(index)) for index in range(num_actions))
    num_actions, meant = actions_of("x", spaces.MultiBinary(2))
    assert [meant(i).tolist() for i in range(num_actions)] == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert [actions_of("x", spaces.Discrete(2, start=3))[1](i) for i in (0, 1)] == [3, 4]
    with pytest.raises(ConfigError, match="Box actions"):
        actions_of("x", spaces.Box(0, 1))
