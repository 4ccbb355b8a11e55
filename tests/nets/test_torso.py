"""Prepared observations by hand, and the torsos that process them."""

import pytest
import torch

from agent57.config import NetworkConfig
from agent57.nets.torso import Trunk, num_planes, prepare

SIZES = NetworkConfig(channels=(8, 16, 16), grid_channels=(4, 6), feature_size=12)


def test_pixels_are_scaled_by_their_largest_value() -> None:
    pixels = torch.tensor([[[[0, 51], [102, 255]]]], dtype=torch.uint8)
    expected = torch.tensor([[[[0.0, 0.2], [0.4, 1.0]]]])
    torch.testing.assert_close(prepare(pixels, "pixels", 255), expected)


def test_cells_of_a_grid_become_the_bits_of_their_code() -> None:
    grid = torch.tensor([[[5, 2]], [[0, 7]]], dtype=torch.uint8)[None]  # [N=1, C=2, Y=1, X=2]
    bits = prepare(grid, "grid", 7)
    assert bits.shape == (1, 6, 1, 2)
    assert bits[0, :, 0, 0].tolist() == [1, 0, 1, 0, 0, 0]  # 5 is 101, lowest bit first; then 0
    assert bits[0, :, 0, 1].tolist() == [0, 1, 0, 1, 1, 1]


@pytest.mark.parametrize("max_value", [1, 2, 10, 255])
def test_every_code_of_a_grid_looks_different_by_law(max_value: int) -> None:
    codes = torch.arange(max_value + 1).to(torch.uint8)[:, None, None, None]
    bits = prepare(codes, "grid", max_value)
    assert bits.shape[1] == num_planes("grid", (1, 1, 1), max_value)
    assert len(torch.unique(bits.flatten(1), dim=0)) == max_value + 1


def test_vectors_stay_as_they_are() -> None:
    vector = torch.randn(2, 3, 4)
    assert torch.equal(prepare(vector, "vector", 1), vector)


def test_observations_are_not_changed_by_preparing_them() -> None:
    pixels = torch.full((1, 1, 4, 4), 200, dtype=torch.uint8)
    vector = torch.ones(2, 3)
    prepare(pixels, "pixels", 255).zero_()
    assert (pixels == 200).all()
    assert (vector == 1).all()


@pytest.mark.parametrize("shape", [(1, 84, 84), (3, 36, 36), (4, 64, 96), (1, 210, 160)])
def test_pixels_of_any_size_and_depth(shape: tuple[int, int, int]) -> None:
    trunk = Trunk(SIZES, "pixels", shape)
    features = trunk(torch.rand(2, *shape))
    assert features.shape == (2, trunk.num_features)


def test_the_papers_frames_give_the_dqn_features() -> None:
    trunk = Trunk(NetworkConfig(), "pixels", (1, 84, 84))
    assert trunk.num_features == 7 * 7 * 64
    assert sum(p.numel() for p in trunk.parameters()) == 71_840


@pytest.mark.parametrize("shape", [(6, 3, 3), (20, 7, 7), (2, 15, 15), (1, 1, 9), (1, 35, 35)])
def test_grids_of_any_size(shape: tuple[int, int, int]) -> None:
    trunk = Trunk(SIZES, "grid", shape)
    assert trunk(torch.rand(2, *shape)).shape == (2, trunk.num_features)


def test_every_cell_of_a_grid_is_seen() -> None:
    torch.manual_seed(0)
    trunk = Trunk(NetworkConfig(), "grid", (1, 7, 6))
    cells = torch.cat([torch.zeros(1, 42), torch.eye(42)]).reshape(43, 1, 7, 6)
    with torch.no_grad():
        features = trunk(cells)
    assert ((features[1:] - features[0]).abs().amax(1) > 1e-4).all()


def test_vectors_of_any_length() -> None:
    trunk = Trunk(SIZES, "vector", (5,))
    assert trunk(torch.randn(7, 5)).shape == (7, 12)
