"""Gymnasium tasks that fail in different ways, once a file says so."""

import os
import sys
import time
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium import spaces

FAULT_FILE = "AGENT57_TEST_FAULT"  # names a file that holds the kind of fault, if the file exists


class Broken(gymnasium.Env):
    """Twelve steps of small numbers, until the fault comes."""

    def __init__(self, render_mode: str | None = None) -> None:
        self.observation_space = spaces.Box(-1, 1, (3,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._num_steps = 0
        self._phase = 0.0

    def _observe(self) -> np.ndarray:
        return np.sin(self._phase + self._num_steps * np.array([1.0, 2.0, 3.0])).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._num_steps, self._phase = 0, self.np_random.random()
        if os.environ.get("AGENT57_TEST_NOISE"):
            self._phase = float(np.random.default_rng().random())
        return self._observe(), {}

    def step(self, action):
        self._num_steps += 1
        file = os.environ.get(FAULT_FILE)
        fault = Path(file).read_text() if file and Path(file).exists() else ""
        if fault == "raise":
            raise RuntimeError("the emulator caught fire")
        if fault == "exit":
            sys.exit(0)
        if fault == "close files":
            os.closerange(3, 256)
        while fault in ("hang", "deaf hang"):
            try:
                time.sleep(0.1)
            except Exception:
                if fault == "hang":
                    raise
        observation = self._observe() * (float("nan") if fault == "nan" else 1)
        reward = {"huge": 1e25, "enormous": 1e38, "nan reward": float("nan")}.get(
            fault, float(action)
        )
        return observation, reward, self._num_steps == 12, False, {}


gymnasium.register(id="agent57/Broken-v0", entry_point=Broken)
