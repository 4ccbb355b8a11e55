"""A cluster without Ray: the same workers in this process, which tests can call and kill."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from agent57.config import Config
from agent57.envs.make import check_env
from agent57.nets.networks import make_networks
from agent57.replay.block import make_layout
from agent57.runtime.cluster.conductor import Cluster
from agent57.runtime.cluster.totals import Died, Gone
from agent57.runtime.cluster.workers import State
from tests.small import CPU, Notes


class Answer:
    """The future answer of a call, or one of its several answers."""

    def __init__(self, run: Callable[[], Any], earlier: list["Answer"] | None = None) -> None:
        self._run = run
        self._earlier = list(earlier or [])  # earlier calls to this process are done first
        self.name = ""
        self.is_done = False
        self.is_lost = False
        self._value: Any = None
        self._error: Exception | None = None

    def get(self) -> Any:
        self.do()
        if self._error is not None:
            raise self._error
        return self._value

    def do(self) -> None:
        if self.is_lost:
            self._error = Gone("lost")
        elif not self.is_done:
            self.is_done = True
            for call in self._earlier:
                call.do()
            self._earlier = []
            try:
                self._value = copied(self._run())
            except Exception as error:
                self._error = error


def copied(value: Any) -> Any:
    """Return a value as it would arrive in another process."""
    return pickle.loads(pickle.dumps(value))


def without_a_target(learner: State) -> State:
    """Return a learner's state whose next update is not finite, but whose actors can play."""
    target = {name: torch.full_like(w, torch.nan) for name, w in learner["target"].items()}
    return {**learner, "target": target}


class Method:
    def __init__(self, process: "FakeProcess", name: str, num_returns: int = 1) -> None:
        self._process, self._name, self._num_returns = process, name, num_returns

    def options(self, num_returns: int) -> "Method":
        return Method(self._process, self._name, num_returns)

    def remote(self, *args: Any, **options: Any) -> Any:
        earlier = self._process.calls[-1:]
        call = Answer(lambda: self._process.run(self._name, args, options), earlier)
        call.name = self._name
        self._process.calls.append(call)
        if self._num_returns == 1:
            return call
        return [Answer(lambda i=i: call.get()[i]) for i in range(self._num_returns)]


class FakeProcess:
    """A worker; calls to it are done in the order they were made."""

    def __init__(self, kind: type, args: tuple[Any, ...]) -> None:
        self.kind = kind
        self.worker = kind(*copied(args))
        self.is_dead = False
        self.calls: list[Answer] = []
        self.log: list[str] = []
        self.heard: dict[str, list[Any]] = {}  # arguments of the latest call of each name

    def run(self, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if self.is_dead:
            raise Died(f"{self.kind.__name__} is gone")
        given = [arg.get() if isinstance(arg, Answer) else copied(arg) for arg in args]
        self.log.append(name)
        self.heard[name] = given
        return getattr(self.worker, name)(*given, **copied(options))

    def unfinished(self, name: str) -> Answer:
        """Return the first call of this name that is not done yet."""
        return next(call for call in self.calls if call.name == name and not call.is_done)

    def __getattr__(self, name: str) -> Method:
        return Method(self, name)


class FakeCalls:
    """`Calls`, with answers taken in the order of the calls unless `choose` says otherwise."""

    def __init__(self) -> None:
        self.processes: list[FakeProcess] = []
        self.pending: dict[Answer, Callable[[Answer], None]] = {}
        self.patient: set[Answer] = set()
        self.limit_seconds = 600.0
        self.num_late = 0
        self.num_answers = 0
        self.is_stopping: Callable[[], bool] = lambda: False
        self.choose: Callable[[list[Answer]], Answer] = lambda answers: answers[0]

    def spawn(self, kind: type, *args: Any, **where: Any) -> FakeProcess:
        self.processes.append(FakeProcess(kind, args))
        return self.processes[-1]

    def living(self, kind: type) -> list[FakeProcess]:
        return [p for p in self.processes if p.kind is kind and not p.is_dead]

    def expect(
        self, ref: Answer, act: Callable[[Answer], None], who: str, *, is_patient: bool = False
    ) -> None:
        self.pending[ref] = act
        if is_patient:
            self.patient.add(ref)

    @property
    def num_under_way(self) -> int:
        return len(self.pending) - len(self.patient)

    @property
    def num_patient(self) -> int:
        return len(self.patient)

    def take_in(self) -> None:
        if self.pending:
            ref = self.choose(list(self.pending))
            self.patient.discard(ref)
            self.pending.pop(ref)(ref)
            self.num_answers += 1

    def settle(self, *, patience: float = 0.0) -> None:
        while self.num_under_way or (patience and self.pending):
            self.take_in()

    def answer(self, ref: Answer, who: str = "") -> Any:
        return ref.get()

    def answers(self, refs: list[Answer], who: str = "") -> list[Any]:
        return [ref.get() for ref in refs]

    def end(self, process: FakeProcess | None) -> None:
        if process is not None:
            process.is_dead = True


class Play:
    """A cluster of fake processes, and its messages."""

    def __init__(self, config: Config, folder: Path) -> None:
        spec = check_env(config.env)
        layout = make_layout(spec, make_networks(config, spec))
        self.calls, self.journal, self.said = FakeCalls(), Notes(), []
        self.cluster = Cluster(
            config, spec, layout, CPU, self.calls, folder, self.journal, self.said.append
        )

    def run(self, until: Callable[[Cluster], bool] = lambda cluster: cluster.is_finished) -> None:
        """Do what `train` does, until a condition holds."""
        self.cluster.start()
        while not until(self.cluster):
            self.cluster.call_all_who_may()
            assert self.calls.pending, "nobody is called any more"
            self.calls.take_in()
