"""The names of the paper's 57 Atari games, and their other spellings.

This module needs no emulator.
"""

import dataclasses
import re

from agent57.config import EnvConfig

ATARI_GAMES = (
    "alien", "amidar", "assault", "asterix", "asteroids", "atlantis", "bank_heist", "battle_zone",
    "beam_rider", "berzerk", "bowling", "boxing", "breakout", "centipede", "chopper_command",
    "crazy_climber", "defender", "demon_attack", "double_dunk", "enduro", "fishing_derby",
    "freeway", "frostbite", "gopher", "gravitar", "hero", "ice_hockey", "jamesbond", "kangaroo",
    "krull", "kung_fu_master", "montezuma_revenge", "ms_pacman", "name_this_game", "phoenix",
    "pitfall", "pong", "private_eye", "qbert", "riverraid", "road_runner", "robotank", "seaquest",
    "skiing", "solaris", "space_invaders", "star_gunner", "surround", "tennis", "time_pilot",
    "tutankham", "up_n_down", "venture", "video_pinball", "wizard_of_wor", "yars_revenge",
    "zaxxon",
)  # fmt: skip

_BY_LETTERS = {game.replace("_", ""): game for game in ATARI_GAMES}
_ID = re.compile(r"(?:ALE/)?([A-Za-z_]+?)(?:NoFrameskip|Deterministic)?(?:-v\d+)?")


def game_named(name: str) -> str | None:
    """Return the paper's name of a game given as Pong, ALE/Pong-v5, PongNoFrameskip-v4 and so on.

    Return None for other names, including ids that observe the console's memory (Pong-ram-v4).
    """
    match = _ID.fullmatch(name)
    return _BY_LETTERS.get(match[1].replace("_", "").lower()) if match else None


def with_paper_name(config: EnvConfig) -> EnvConfig:
    """Replace an Atari id by the paper's name of the game, unless `raw` is set."""
    game = None if config.raw else game_named(config.name)
    return config if game is None else dataclasses.replace(config, name=game)


def renaming(given: str, config: EnvConfig) -> str:
    """Return a line that says how an Atari id is played; "" if the name was not replaced."""
    if given == config.name or config.name not in ATARI_GAMES:
        return ""
    return (
        f"{given} is played as the paper plays {config.name}: {config.frame_size} x "
        f"{config.frame_size} grey pixels, {config.frame_skip} frames per action, sticky actions "
        f"{config.sticky_actions:g} (--env.raw plays the id as it is)"
    )
