"""The family of N = 32 policies, arm by arm, without the paper's misprints."""

import numpy as np

from agent57.config import FamilyConfig
from agent57.ops.family import betas, gammas

# Arm j, beta_j, gamma_j of Agent57, gamma_j of NGU.
TABLE = [
    (0, 0, 0.99990000, 0.99700000),
    (1, 2.6525751e-05, 0.99989631, 0.99688119),
    (2, 5.1660779e-05, 0.99980011, 0.99675768),
    (3, 0.00010060504, 0.99845000, 0.99662928),
    (4, 0.0001958896, 0.99709989, 0.99649580),
    (5, 0.00038130488, 0.99700369, 0.99635702),
    (6, 0.00074178695, 0.99700013, 0.99621275),
    (7, 0.0014414259, 0.99700000, 0.99606277),
    (8, 0.0027947878, 0.99700000, 0.99590685),
    (9, 0.005395863, 0.99683878, 0.99574475),
    (10, 0.010333559, 0.99666889, 0.99557624),
    (11, 0.019490751, 0.99648987, 0.99540105),
    (12, 0.035760877, 0.99630124, 0.99521892),
    (13, 0.062582558, 0.99610246, 0.99502958),
    (14, 0.10177309, 0.99589300, 0.99483274),
    (15, 0.15, 0.99567229, 0.99462811),
    (16, 0.19822691, 0.99543971, 0.99441537),
    (17, 0.23741744, 0.99519464, 0.99419421),
    (18, 0.26423912, 0.99493639, 0.99396429),
    (19, 0.28050925, 0.99466427, 0.99372527),
    (20, 0.28966644, 0.99437752, 0.99347677),
    (21, 0.29460414, 0.99407537, 0.99321844),
    (22, 0.29720521, 0.99375697, 0.99294988),
    (23, 0.29855857, 0.99342147, 0.99267068),
    (24, 0.29925821, 0.99306793, 0.99238043),
    (25, 0.2996187, 0.99269539, 0.99207868),
    (26, 0.29980411, 0.99230284, 0.99176498),
    (27, 0.29989939, 0.99188918, 0.99143886),
    (28, 0.29994834, 0.99145330, 0.99109982),
    (29, 0.29997347, 0.99099399, 0.99074736),
    (30, 0.29998638, 0.99051000, 0.99038093),
    (31, 0.3, 0.99000000, 0.99000000),
]


def test_betas_of_the_paper() -> None:
    np.testing.assert_allclose(betas(FamilyConfig()), [row[1] for row in TABLE], rtol=5e-8)


def test_gammas_of_agent57() -> None:
    np.testing.assert_allclose(
        gammas(FamilyConfig()), [row[2] for row in TABLE], rtol=0, atol=5.1e-9
    )


def test_gammas_of_ngu() -> None:
    config = FamilyConfig(discounts="ngu", max_gamma=0.997)
    np.testing.assert_allclose(gammas(config), [row[3] for row in TABLE], rtol=0, atol=5.1e-9)


def test_gammas_by_the_corrected_formula() -> None:
    # Arms 1 to 6 with the roles of gamma_0 and gamma_1 as the text has them, arms 8 to 31 as NGU.
    expected = np.empty(32)
    expected[0], expected[7] = 0.9999, 0.997
    for j in range(1, 7):
        expected[j] = 0.9999 + (0.997 - 0.9999) / (1 + np.exp(-10 * (2 * j - 6) / 6))
    for j in range(8, 32):
        log_rate = ((32 - 1 - j) * np.log(1 - 0.997) + (j - 8) * np.log(1 - 0.99)) / (32 - 9)
        expected[j] = 1 - np.exp(log_rate)
    np.testing.assert_allclose(gammas(FamilyConfig()), expected, rtol=1e-14)


def test_regression_gammas_as_printed() -> None:
    # As printed, gamma rises over arms 1 to 6 and again to 0.99997 at arm 31.
    gamma = gammas(FamilyConfig())
    assert (np.diff(gamma) <= 0).all()
    assert gamma.max() == gamma[0] == 0.9999
    assert gamma.min() == gamma[31] == 0.99


def test_horizons_reach_from_a_hundred_to_ten_thousand_steps() -> None:
    horizon = 1 / (1 - gammas(FamilyConfig()))
    np.testing.assert_allclose(horizon[[0, 3, 7, 8, 31]], [10_000, 645.2, 333.3, 333.3, 100], 1e-3)
