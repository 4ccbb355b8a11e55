"""Uploads policies to the Hugging Face Hub, with a model card, and loads them from there.

The Hub's client is an extra (`pip install 'agent57[hub]'`) and is imported when it is needed.
"""

import json
import tempfile
from pathlib import Path
from typing import Any, Protocol

from agent57.config import ConfigError, to_dict
from agent57.trained.loaded_policy import Policy, load
from agent57.trained.policy_file import read_trained, write_policy
from agent57.trained.trained_run import TrainedRun

POLICY_FILE = "policy.agent57"


class HubClient(Protocol):
    """The part of `huggingface_hub.HfApi` that is used here."""

    def create_repo(self, repo_id: str, *, private: bool | None, exist_ok: bool) -> object:
        """Make a repository, unless it exists."""
        ...

    def upload_folder(self, *, repo_id: str, folder_path: str, commit_message: str) -> object:
        """Add the files of a folder to a repository, in one commit."""
        ...

    def hf_hub_download(self, repo_id: str, filename: str, *, revision: str | None) -> str:
        """Fetch a file and return its path on this machine."""
        ...


def push_to_hub(
    path: str | Path,
    repo_id: str,
    *,
    evaluation: dict[str, Any] | None = None,
    private: bool | None = None,
    client: HubClient | None = None,
) -> None:
    """Upload the policy of a run folder or file, with a model card, to `repo_id`.

    evaluation: the result of `run.evaluate()`, whose score goes into the card
    """
    run = read_trained(Path(path))
    client = client or _client()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        write_policy(run, run.task(), out / POLICY_FILE)
        (out / "config.json").write_text(json.dumps(to_dict(run.config), indent=2) + "\n", "utf-8")
        (out / "README.md").write_text(model_card(run, repo_id, evaluation), "utf-8")
        client.create_repo(repo_id, private=private, exist_ok=True)
        message = f"{run.config.run.agent} on {run.config.env.name}"
        client.upload_folder(repo_id=repo_id, folder_path=folder, commit_message=message)


def load_from_hub(
    repo_id: str,
    arm: int | None = None,
    *,
    revision: str | None = None,
    client: HubClient | None = None,
    **options: Any,  # noqa: ANN401
) -> Policy:
    """Load a policy that `push_to_hub` uploaded. No code from the repository runs.

    revision: a branch, tag or commit
    options: as in `agent57.load`
    """
    client = client or _client()
    return load(client.hf_hub_download(repo_id, POLICY_FILE, revision=revision), arm, **options)


def model_card(run: TrainedRun, repo_id: str, evaluation: dict[str, Any] | None) -> str:
    """Return the model card: the training, its score, how to use it, and a header for search."""
    config = run.config
    title = f"{config.run.agent} on {config.env.name}"
    head = {
        "library_name": "agent57",
        "license": "mit",
        "tags": ["reinforcement-learning", "deep-reinforcement-learning", "agent57"],
        "model-index": [{"name": title, "results": _results(run, evaluation)}],
    }
    beta, gamma = run.beta_gamma(run.best_arm)
    score = "It was not evaluated when this card was written."
    if evaluation is not None:
        score = (
            f"Mean return {evaluation['return_mean']:,.2f} ± {evaluation['return_std']:,.2f} over "
            f"{evaluation['num_episodes']} episodes, epsilon {evaluation['epsilon']:g}, "
            f"seed {evaluation['seed']}."
        )
    # JSON is valid YAML, and escapes names so that they cannot end the header.
    return f"""---
{json.dumps(head, indent=2)}
---

# {title}

Trained with agent57, an open implementation of
[Agent57](https://arxiv.org/abs/2003.13350) (Badia et al., 2020).

{score}

| | |
|---|---|
| task | `{config.env.name}` |
| agent, scale, seed | {config.run.agent}, {config.run.scale}, {config.run.seed} |
| trained frames | {run.counters["frames"]:,} |
| updates | {run.counters["updates"]:,} |
| best arm | {run.best_arm} of {config.family.arms}, beta {beta:.4g}, gamma {gamma:.6g} |

```python
import agent57

policy = agent57.load_from_hub("{repo_id}")
env = policy.make_env()
observation, _ = env.reset(seed=0)
state = policy.initial_state()
action, state = policy.act(observation, state, first=True)
```

Every setting of the run is in `config.json`. `{POLICY_FILE}` holds tensors and plain containers:
opening it runs no code.
"""


def _results(run: TrainedRun, evaluation: dict[str, Any] | None) -> list[dict[str, Any]]:
    if evaluation is None:
        return []
    value = f"{evaluation['return_mean']:.2f} +/- {evaluation['return_std']:.2f}"
    name = run.config.env.name
    return [
        {
            "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
            "dataset": {"name": name, "type": name},
            "metrics": [{"type": "mean_reward", "value": value, "name": "mean_reward"}],
        }
    ]


def _client() -> HubClient:
    try:
        from huggingface_hub import HfApi
    except ImportError:
        raise ConfigError("the Hugging Face Hub needs pip install 'agent57[hub]'") from None
    client: HubClient = HfApi()
    return client
