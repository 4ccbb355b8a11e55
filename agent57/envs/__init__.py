"""Environments of many lanes. Importing this tells Gymnasium of the random coin."""

from gymnasium import register

register(id="agent57/RandomCoin-v0", entry_point="agent57.envs.random_coin:RandomCoin")
