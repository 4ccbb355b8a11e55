"""Serves the live page: the page itself, its payload as JSON, and server-sent events.

- The events report that the payload changed, and carry the lanes and their pictures.
- To leave time for a training, the server rests after each piece of work, `REST` times as long.
- If the server listens beyond loopback, every request needs the token in the printed address.
"""

import asyncio
import hmac
import json
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from agent57.config import ConfigError, EnvConfig, require
from agent57.reports.page import SCRIPTS, fill_page
from agent57.watch.followed_runs import FollowedRun, FollowedRuns, Zoom
from agent57.watch.painter import Painter

LOOPBACK = ("127.0.0.1", "localhost", "::1")
COOKIE = "agent57_token"
POLL_SECONDS = 1.0  # least time between two reads of the records
LANE_SECONDS = 0.5  # least time between two pictures of a lane
REST = 100  # seconds of rest per second of work: at most 1 % of a core
MAX_LANE_SECONDS = 5.0  # longest rest between two pictures of a lane
LANE_REST = 10  # seconds of rest per second of drawing, which has a low priority
REPLAYED = ("actions", "dtype", "seed", "picture")  # fields of a lane that only the painter needs
ALIVE_SECONDS = 15.0  # between two comments that keep a connection open
MAX_LANES = 5  # number of lanes that are shown

T = TypeVar("T")


def pause_after(seconds: float, at_least: float, times: float) -> float:
    """Return how long to rest after work that took `seconds` of core time."""
    return max(at_least, times * seconds)


class Guard:
    """Refuses requests without the token; on loopback, refuses requests for another host name.

    The latter protects against foreign pages that make a browser send requests to this server.
    """

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
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
        given = (
            connection.query_params.get("token")
            or connection.cookies.get(_cookie(connection))
            or ""
        )
        return hmac.compare_digest(given.encode(), self._token.encode())


class LivePage:
    """The routes of the live page."""

    def __init__(self, runs: FollowedRuns, token: str | None, *, trust: bool = False) -> None:
        self._runs = runs
        self._token = token
        # One thread each, so that two threads never use the runs or the painter at once.
        self._reader = ThreadPoolExecutor(1, "records")
        self._waiter = ThreadPoolExecutor(1, "pictures")
        self.painter = Painter(trust=trust)
        self._page_seconds = 0.0  # core time of the latest payload
        self._streams: set[asyncio.Queue[bytes]] = set()  # one per open page

    def end_streams(self) -> None:
        """End the event streams of all open pages, which would keep the server from stopping."""
        for messages in self._streams:
            messages.put_nowait(b"")

    def warm_up(self) -> None:
        """Read the runs before the first visitor asks for them."""
        self._reader.submit(self._runs.page, [])

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
            page.set_cookie(_cookie(request), self._token, httponly=True, samesite="strict")
        return page

    async def payload(self, request: Request) -> Response:
        """Return the content of the page as JSON."""
        keys, zoom = _asked(request)
        work = partial(self._runs.page, keys, zoom)
        self._page_seconds, content = await self._read(lambda: timed(work))
        return Response(
            content, media_type="application/json", headers={"Cache-Control": "no-store"}
        )

    async def events(self, request: Request) -> Response:
        """Return the stream of server-sent events."""
        keys, _ = _asked(request)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        stream = self._stream(keys)
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)

    async def _read(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._reader, work)

    async def _stream(self, keys: Sequence[str]) -> AsyncIterator[bytes]:
        """Merge the events of records, lanes and pictures. A slow picture never delays a curve."""
        messages: asyncio.Queue[bytes] = asyncio.Queue()
        self._streams.add(messages)
        followers = (self._follow_records, self._follow_lanes, self._follow_pictures)
        tasks = [asyncio.create_task(follow(keys, messages)) for follow in followers]
        try:
            yield b"retry: 1000\n\n"
            while (message := await self._next(messages)) != b"":
                yield message
        finally:
            self._streams.discard(messages)
            for task in tasks:
                task.cancel()

    async def _next(self, messages: asyncio.Queue[bytes]) -> bytes:
        try:
            return await asyncio.wait_for(messages.get(), ALIVE_SECONDS)
        except TimeoutError:
            return b": alive\n\n"

    async def _follow_records(self, keys: Sequence[str], messages: asyncio.Queue[bytes]) -> None:
        versions: object = None
        while True:
            seconds, found = await self._read(lambda: timed(lambda: self._runs.versions(keys)))
            if found != versions:
                versions = found
                messages.put_nowait(event("changed", {"runs": [key for key, *_ in found]}))
                seconds += self._page_seconds
            await asyncio.sleep(pause_after(seconds, POLL_SECONDS, REST))

    async def _follow_lanes(self, keys: Sequence[str], messages: asyncio.Queue[bytes]) -> None:
        """Send the lanes that have moved."""
        shown: dict[str, int] = {}
        while True:
            _, lanes = await self._read(lambda: self._moved_lanes(keys, shown))
            for lane in lanes:
                told = {name: value for name, value in lane.items() if name not in REPLAYED}
                messages.put_nowait(event("lane", told))
            await asyncio.sleep(LANE_SECONDS)

    async def _follow_pictures(self, keys: Sequence[str], messages: asyncio.Queue[bytes]) -> None:
        """Send pictures of the lanes as they are drawn; pictures may lag behind the numbers."""
        shown: dict[str, int] = {}
        while True:
            config, lanes = await self._read(lambda: self._moved_lanes(keys, shown))
            seconds = 0.0 if config is None else await self._draw(config, lanes, messages)
            pause = pause_after(seconds, LANE_SECONDS, LANE_REST)
            await asyncio.sleep(min(pause, MAX_LANE_SECONDS))

    async def _draw(
        self, config: EnvConfig, lanes: list[dict[str, Any]], messages: asyncio.Queue[bytes]
    ) -> float:
        """Send each picture as soon as it is drawn; return the core time of all, in seconds."""
        loop, total = asyncio.get_running_loop(), 0.0
        for lane in lanes:
            work = partial(self.painter.draw, config, [lane])
            seconds, (picture,) = await loop.run_in_executor(self._waiter, work)
            moment = {name: lane[name] for name in ("name", "episode", "steps")}
            messages.put_nowait(event("picture", {**moment, **picture}))
            total += seconds
        return total

    def _moved_lanes(
        self, keys: Sequence[str], shown: dict[str, int]
    ) -> tuple[EnvConfig | None, list[dict[str, Any]]]:
        """Return the task of the first run that trains, and its lanes that have moved."""
        runs = self._runs.chosen(keys)
        run = next((run for run in runs if run.card()["state"] == "training"), None)
        if run is None:
            return None, []
        run.files.ask()
        return run.tail.config.env, moved_lanes(run, shown)


class PageServer(uvicorn.Server):
    """A server that stops at once and silently, even while pages are open."""

    def __init__(self, page: LivePage) -> None:
        super().__init__(
            uvicorn.Config(
                page.app(),
                log_level="warning",
                timeout_graceful_shutdown=1,
                lifespan="off",
                server_header=False,
            )
        )
        self._page = page

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams first, because uvicorn would wait for them and log an error."""
        self._page.end_streams()
        await super().shutdown(sockets)


def moved_lanes(run: FollowedRun, shown: dict[str, int]) -> list[dict[str, Any]]:
    """Return the lanes that have moved since `shown`, and update `shown`."""
    lanes = []
    for lane in run.files.read()[:MAX_LANES]:
        name = f"{run.key}: {lane['source']} {lane['lane']}"
        moment = hash((lane["episode"], lane["steps"]))
        if shown.get(name) != moment:
            shown[name] = moment
            lanes.append({**lane, "run": run.key, "name": name})
    return lanes


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Do the work; return its core time in seconds, and its result."""
    started = time.thread_time()
    result = work()
    return time.thread_time() - started, result


def event(name: str, data: dict[str, Any]) -> bytes:
    """Return a server-sent event as bytes."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


def _cookie(connection: HTTPConnection) -> str:
    """Name the cookie by the port, because a browser sends cookies to all ports of a host."""
    return f"{COOKIE}_{connection.url.port}"


def _asked(request: Request) -> tuple[list[str], Zoom]:
    keys = request.query_params.getlist("runs")
    try:
        first, last = (float(x) for x in request.query_params.get("zoom", "").split("-"))
    except ValueError:
        return keys, None
    return keys, (first, last) if 0 <= first < last < 1e15 else None


def open_socket(host: str, port: int | None, default: int) -> socket.socket:
    """Listen on `port`. If it is None, use the default port, or any free port if it is taken."""
    require(port is None or 0 <= port <= 65535, f"--port must lie in 0 to 65535, got {port}")
    require(bool(host), "--host needs an address, such as 0.0.0.0 for all of this machine")
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


def serve(
    runs: FollowedRuns, listener: socket.socket, token: str | None, *, trust: bool = False
) -> None:
    """Serve the page until the process is told to stop.

    trust: draw lanes with the code of environments that are not installed packages
    """
    page = LivePage(runs, token, trust=trust)
    page.warm_up()
    try:
        PageServer(page).run(sockets=[listener])
    finally:
        page.painter.close()
