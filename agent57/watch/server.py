"""Serves the live page: the page itself, its payload as JSON, and server-sent events.

- The events say that the payload changed, and bring the pictures of lanes.
- Work that follows a training is rationed: after each piece the server rests `REST` times as long.
- Beyond loopback every request needs the token that the printed address holds.
"""

import asyncio
import hmac
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from agent57.config import ConfigError
from agent57.reports.page import SCRIPTS, fill_page
from agent57.watch.followed_runs import FollowedRun, FollowedRuns, Zoom

LOOPBACK = ("127.0.0.1", "localhost", "::1")
COOKIE = "agent57_token"
POLL_SECONDS = 1.0  # between two looks at the records
LANE_SECONDS = 0.5  # between two pictures of a lane
REST = 100  # seconds of rest for a second of work: at most 1 % of a core
LANE_REST = 20  # the same for pictures, which are drawn at the lowest priority
ALIVE_SECONDS = 15.0  # between two comments that keep a connection open
MAX_LANES = 5  # pictures at a time

T = TypeVar("T")


class Pace:
    """Rations work: `due` again after a pause, and after `rest` times the work's own time."""

    def __init__(self, pause: float, rest: float) -> None:
        self._pause = pause
        self._rest = rest
        self._next = 0.0

    @property
    def is_due(self) -> bool:
        """Whether the next piece of work may begin."""
        return time.monotonic() >= self._next

    def worked(self, seconds: float) -> None:
        """Note how long a piece of work took."""
        self._next = time.monotonic() + max(self._pause, self._rest * seconds)


class Guard:
    """Refuses requests without the token, and on loopback those meant for another host.

    The second protects from pages elsewhere that make a browser ask this server.
    """

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        if not self._is_allowed(connection):
            text = "The address must hold the token that `agent57 watch` printed."
            await PlainTextResponse(text, status_code=403)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is_allowed(self, connection: HTTPConnection) -> bool:
        if self._token is None:
            return connection.url.hostname in LOOPBACK
        given = connection.query_params.get("token") or connection.cookies.get(COOKIE) or ""
        return hmac.compare_digest(given.encode(), self._token.encode())


class LivePage:
    """The routes of the live page."""

    def __init__(self, runs: FollowedRuns, token: str | None) -> None:
        self._runs = runs
        self._token = token
        # One thread each, so that neither runs nor cameras are used by two at once.
        self._reader = ThreadPoolExecutor(1, "records")
        self._painter = ThreadPoolExecutor(1, "pictures", initializer=_lowest_priority)

    def app(self) -> Starlette:
        """Return the ASGI application."""
        return Starlette(
            routes=[
                Route("/", self.html),
                Route("/page", self.payload),
                Route("/events", self.events),
            ],
            middleware=[Middleware(Guard, token=self._token)],
        )

    async def html(self, request: Request) -> Response:
        """Return the page without its content."""
        page = HTMLResponse(fill_page("agent57", {}, (*SCRIPTS, "live.js")))
        page.headers["Cache-Control"] = "no-store"
        if self._token is not None:
            page.set_cookie(COOKIE, self._token, httponly=True, samesite="strict")
        return page

    async def payload(self, request: Request) -> Response:
        """Return everything the page shows, as JSON."""
        keys, zoom = _asked(request)
        content = await self._read(lambda: self._runs.page(keys, zoom))
        return Response(
            content, media_type="application/json", headers={"Cache-Control": "no-store"}
        )

    async def events(self, request: Request) -> Response:
        """Stream what changes."""
        keys, _ = _asked(request)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        stream = self._stream(keys, request)
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)

    async def _read(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._reader, work)

    async def _stream(self, keys: Sequence[str], request: Request) -> AsyncIterator[bytes]:
        records, lanes = Pace(POLL_SECONDS, REST), Pace(LANE_SECONDS, LANE_REST)
        versions: object = None
        shown: dict[str, int] = {}
        last_word = time.monotonic()
        yield b"retry: 1000\n\n"
        while not await request.is_disconnected():
            messages = []
            if records.is_due:
                seconds, found = await self._read(lambda: timed(lambda: self._runs.versions(keys)))
                records.worked(seconds)
                if found != versions:
                    versions = found
                    messages.append(event("changed", {"runs": [key for key, *_ in found]}))
            if lanes.is_due:
                seconds, drawn = await self._lanes(keys, shown)
                lanes.worked(seconds)
                messages += [event("lane", lane) for lane in drawn]
            if messages:
                last_word = time.monotonic()
            elif time.monotonic() - last_word > ALIVE_SECONDS:
                last_word = time.monotonic()
                messages.append(b": alive\n\n")
            for message in messages:
                yield message
            await asyncio.sleep(0.1)

    async def _lanes(
        self, keys: Sequence[str], shown: dict[str, int]
    ) -> tuple[float, list[dict[str, Any]]]:
        """Draw the lanes that have moved; the seconds it took, and the lanes."""
        run = await self._read(lambda: self._watched(keys))
        if run is None:
            return 0.0, []
        return await asyncio.get_running_loop().run_in_executor(
            self._painter, lambda: timed(lambda: draw_lanes(run, shown))
        )

    def _watched(self, keys: Sequence[str]) -> FollowedRun | None:
        """Return the run whose lanes are shown: the first that trains. Ask it for pictures."""
        runs = self._runs.chosen(keys)
        training = [run for run in runs if run.card()["state"] == "training"]
        if not training:
            return None
        training[0].files.ask()
        return training[0]


def draw_lanes(run: FollowedRun, shown: dict[str, int]) -> list[dict[str, Any]]:
    """Return the lanes that have moved since `shown`, each with its picture."""
    lanes = []
    for lane in run.files.read()[:MAX_LANES]:
        name = f"{lane['source']} {lane['lane']}"
        moment = hash((lane["episode"], lane["steps"]))
        if shown.get(name) == moment:
            continue
        shown[name] = moment
        picture = run.camera.picture(name, lane)
        kept = {key: value for key, value in lane.items() if key not in ("actions", "picture")}
        lanes.append({**kept, "run": run.key, "name": name, "picture": picture})
    return lanes


def _lowest_priority() -> None:
    """Let this thread draw pictures only when nothing else wants the core (Linux: per thread)."""
    with suppress(AttributeError, OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Return how many seconds of core time the work took, and its result."""
    started = time.thread_time()
    result = work()
    return time.thread_time() - started, result


def event(name: str, data: dict[str, Any]) -> bytes:
    """A server-sent event."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


def _asked(request: Request) -> tuple[list[str], Zoom]:
    keys = [key for key in request.query_params.get("runs", "").split(",") if key]
    try:
        first, last = (float(x) for x in request.query_params.get("zoom", "").split("-"))
    except ValueError:
        return keys, None
    return keys, (first, last) if 0 <= first < last < 1e15 else None


def open_socket(host: str, port: int | None, default: int) -> socket.socket:
    """Listen on a port; without a wish on the default one, or on any free one if it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for wish in (port,) if port is not None else (default, 0):
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, wish))
        except OSError as error:
            listener.close()
            reason = error.strerror or str(error)
            if wish == (port if port is not None else 0):
                raise ConfigError(f"--host {host} --port {wish} cannot be used: {reason}") from None
            continue
        return listener
    raise AssertionError("one of the ports was tried last")


def new_token(host: str) -> str | None:
    """Return a token for a server that others can reach; None on loopback."""
    return None if host in LOOPBACK else secrets.token_urlsafe(16)


def address(listener: socket.socket, host: str, token: str | None) -> str:
    """Return the address of the page."""
    port = listener.getsockname()[1]
    name = socket.gethostname() if host in ("0.0.0.0", "::") else host
    shown = f"[{name}]" if ":" in name else name
    return f"http://{shown}:{port}/" + (f"?token={token}" if token else "")


def serve(runs: FollowedRuns, listener: socket.socket, token: str | None) -> None:
    """Serve the page until the process is told to stop."""
    config = uvicorn.Config(
        LivePage(runs, token).app(),
        log_level="warning",
        timeout_graceful_shutdown=1,
        lifespan="off",
        server_header=False,
    )
    uvicorn.Server(config).run(sockets=[listener])
