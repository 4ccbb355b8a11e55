"""Environments of many lanes. Importing this package registers the random coin with Gymnasium."""

from gymnasium import register

register(id="agent57/RandomCoin-v0", entry_point="agent57.envs.random_coin:RandomCoin")
