"""Routers as processes, over a real nats-server on this machine."""

import asyncio
import contextlib
import datetime
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

from tests.cli.commands import run_failing
from tests.documents import run_examples
from tocsin import RoutingError
from tocsin.files.rules import read_schema
from tocsin.routing import Conditions, RouterClient, nats_router
from tocsin.routing.router import Neighbour

pytest.importorskip("nats", reason="nats-py is not installed: pip install 'tocsin[nats]'")
SERVER = shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin")
needs_server = pytest.mark.skipif(SERVER is None, reason="no nats-server on PATH: make nats")

SCHEMA = "x=number,tier=category,at=time"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def end(process, how=signal.SIGTERM):
    """Send a signal to a process; return its exit code and output."""
    process.send_signal(how)
    try:
        output, _ = process.communicate(timeout=20)
    finally:
        process.kill()
    return process.returncode, output


class Network:
    """A NATS server and routers, which are processes of this test."""

    def __init__(self):
        self.port = free_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        self.processes = contextlib.ExitStack()
        self.routers = {}
        self.start_server()

    def start_server(self):
        command = [SERVER, "--addr", "127.0.0.1", "--port", str(self.port)]
        self.server = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.processes.callback(end, self.server, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            time.sleep(0.05)
        raise AssertionError("the nats-server does not listen")

    def start_router(self, name, *neighbours, schema=SCHEMA):
        options = [f"--neighbour={each}" for each in neighbours]
        options += [f"--schema={schema}", f"--nats={self.url}"]
        router = subprocess.Popen(
            [sys.executable, "-m", "tocsin", "router", name, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        self.processes.callback(end, router, signal.SIGKILL)
        self.routers[name] = router

    def wait_for_routers(self, *names):
        for name in names:
            assert self.routers[name].stdout.readline() == f"router {name} is ready\n"

    def client(self, router, name=None):
        return RouterClient(router, self.url, name)


@pytest.fixture
def network():
    network = Network()
    with network.processes:
        yield network


@pytest.fixture
def line(network):
    """Routers a - b - c."""
    network.start_router("a", "b")
    network.start_router("b", "a", "c")
    network.start_router("c", "b")
    network.wait_for_routers("a", "b", "c")
    return network


@needs_server
def test_the_example_of_the_document(line):
    names = {"__name__": "__main__"}
    places = {f'RouterClient("{name}"': f'RouterClient("{name}", "{line.url}"' for name in "ac"}
    (printed,) = run_examples("docs/routing.md", names, places)
    assert printed == "{'x': 6, 'tier': 'gold'} ['wide']\n"


async def receive(client, count):
    """Return this many notifications, and make sure that no more of them come."""
    found = [await asyncio.wait_for(anext(client), 20) for _ in range(count)]
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(anext(client), 0.3)
    return found


@needs_server
def test_notifications_reach_their_clients(line):
    async def main():
        async with line.client("a", "ann") as ann, line.client("c", "cat") as cat:
            await ann.subscribe("wide", "x > 3")
            await ann.subscribe("narrow", "x > 5 AND tier = 'gold'")
            await cat.subscribe("late", "at >= '2024-05-01'")
            await cat.publish({"x": 4})
            await cat.publish({"x": 6, "tier": "gold"})
            await cat.publish({"x": 2})
            noon = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)
            await ann.publish({"at": noon, "x": 1})
            first, second = await receive(ann, 2)
            assert first == ({"x": 4}, ["wide"])
            assert second.event == {"x": 6, "tier": "gold"}
            assert set(second.ids) == {"wide", "narrow"}
            (third,) = await receive(cat, 1)
            assert third == ({"at": "2024-05-01T12:00:00+00:00", "x": 1}, ["late"])
            await ann.unsubscribe("wide")
            await cat.publish({"x": 4})
            await cat.publish({"x": 7, "tier": "gold"})
            assert await receive(ann, 1) == [({"x": 7, "tier": "gold"}, ["narrow"])]

            with pytest.raises(RoutingError, match="unknown attribute 'y'"):
                await ann.subscribe("wrong", "y > 3")
            with pytest.raises(RoutingError, match="already has a subscription 'narrow'"):
                await ann.subscribe("narrow", "x > 3")
            with pytest.raises(RoutingError, match="has no subscription 'wide'"):
                await ann.unsubscribe("wide")
            with pytest.raises(RoutingError, match="'x' is a number, but the event has str"):
                await ann.publish({"x": "four"})
            with pytest.raises(RoutingError, match="too large for the NATS server"):
                await ann.publish({"tier": "x" * 1_100_000})
            with pytest.raises(RoutingError, match="cannot be written as JSON"):
                await ann.publish({"x": object()})

    asyncio.run(main())
    for name, router in line.routers.items():
        how = signal.SIGINT if name == "a" else signal.SIGTERM
        assert end(router, how) == (0, f"router {name} has stopped\n")


async def publish_during(client, numbers, interruption):
    """Publish a number of events while a router or the server is interrupted."""
    publishing = asyncio.gather(*(client.publish({"x": each}) for each in numbers))
    await interruption
    await asyncio.wait_for(publishing, 30)


@needs_server
def test_nothing_due_is_lost_when_a_router_stands_still_or_the_server_restarts(line):
    async def pause():
        line.routers["b"].send_signal(signal.SIGSTOP)
        await asyncio.sleep(1.5)
        line.routers["b"].send_signal(signal.SIGCONT)

    async def restart_server():
        line.server.kill()
        line.server.wait()
        await asyncio.sleep(0.5)
        line.start_server()

    async def main():
        async with line.client("a") as ann, line.client("c") as cat:
            await ann.subscribe("all", "x >= 0")
            await publish_during(cat, range(300), pause())
            await publish_during(cat, range(300, 600), restart_server())
            # Subscriptions are acknowledged across an interruption, too.
            line.routers["b"].send_signal(signal.SIGSTOP)
            subscribing = asyncio.ensure_future(ann.subscribe("negative", "x < 0"))
            await asyncio.sleep(1)
            assert not subscribing.done()
            line.routers["b"].send_signal(signal.SIGCONT)
            await asyncio.wait_for(subscribing, 20)
            await cat.publish({"x": -1})
            found = await receive(ann, 601)
            assert [each.event["x"] for each in found] == [*range(600), -1]

    asyncio.run(main())


@needs_server
def test_a_router_that_restarts_gets_all_subscriptions_again(line):
    async def main():
        async with line.client("a") as ann:
            await ann.subscribe("all", "x >= 0")
            async with line.client("c", "old") as old:
                await old.subscribe("all", "x >= 0")
                end(line.routers["c"], signal.SIGKILL)
                line.start_router("c", "b")
                line.wait_for_routers("c")
                with pytest.raises(RoutingError, match="router 'c' has restarted"):
                    await asyncio.wait_for(anext(old), 20)
                with pytest.raises(RoutingError, match="router 'c' has restarted"):
                    await old.publish({"x": 1})
            async with line.client("c") as cat:
                await cat.subscribe("some", "x > 5")  # by now, b has answered c
                await cat.publish({"x": 6})
                assert await receive(ann, 1) == [({"x": 6}, ["all"])]
                assert await receive(cat, 1) == [({"x": 6}, ["some"])]

    asyncio.run(main())
    code, output = end(line.routers["b"])
    assert code == 0
    assert "router c has restarted; it gets all subscriptions again" in output


@needs_server
def test_a_neighbour_that_does_not_answer_is_given_up(network, monkeypatch):
    monkeypatch.setattr(nats_router, "SILENCE", 1.0)
    monkeypatch.setattr(nats_router, "BACKLOG", 100)
    monkeypatch.setattr(nats_router.RouterProcess, "_forget_clients", lambda self: None)
    network.start_router("b", "a")
    network.wait_for_routers("b")
    reports, language = asyncio.Queue(), Conditions(read_schema(SCHEMA))

    async def main():
        router = nats_router.RouterProcess("a", ["b"], language, reports.put_nowait)
        stop = asyncio.Event()
        running = asyncio.create_task(router.run(network.url, stop))
        assert await asyncio.wait_for(reports.get(), 20) == "router a is ready"
        async with network.client("a") as cat, network.client("b") as ann:
            await ann.subscribe("all", "x >= 0")
            await cat.publish({"x": 1})
            assert await receive(ann, 1) == [({"x": 1}, ["all"])]
            network.routers["b"].send_signal(signal.SIGSTOP)
            await asyncio.gather(*(cat.publish({"x": each}) for each in range(300)))
            report = await asyncio.wait_for(reports.get(), 20)
            assert report.startswith("router b was silent for")
            assert "s: 300 messages for it are dropped, 300 of them events" in report
            await asyncio.gather(*(cat.publish({"x": each}) for each in range(300)))
            assert router._sessions[Neighbour("b")].unacknowledged == 0, "b has no subscriptions"
            network.routers["b"].send_signal(signal.SIGCONT)
            await cat.subscribe("some", "x > 1000")  # returns when b knows it
            await cat.publish({"x": 1001})
            found = []  # what b had read from its socket before, and then the last one
            while {"x": 1001} not in found:
                found.append((await asyncio.wait_for(anext(ann), 20)).event)
            assert found == [*({"x": each} for each in range(len(found) - 1)), {"x": 1001}]
        stop.set()
        await running

    asyncio.run(main())
    _, output = end(network.routers["b"])
    assert "router a has restarted; it gets all subscriptions again" in output


@needs_server
def test_routers_that_do_not_fit_together_say_so(network):
    network.start_router("a", "b", "c")
    network.start_router("b", "a", schema="x=category")
    network.start_router("c")
    network.wait_for_routers("a", "b", "c")

    async def main():
        async with network.client("a") as ann:
            subscribing = asyncio.ensure_future(ann.subscribe("all", "x >= 0"))
            assert "router b has another schema (conditions over x category" in await line_of("a")
            assert "start this one with --neighbour a" in await line_of("c")
            assert not subscribing.done()
            subscribing.cancel()

    async def line_of(name):
        line = asyncio.to_thread(network.routers[name].stdout.readline)
        return await asyncio.wait_for(line, 20)

    asyncio.run(main())


@needs_server
def test_a_cycle_ends_a_router(network):
    network.start_router("a", "b", "c")
    network.start_router("b", "a", "c")
    network.start_router("c", "a", "b")
    network.wait_for_routers("a", "b", "c")

    async def main():
        async with network.client("a") as ann:
            with contextlib.suppress(asyncio.TimeoutError, RoutingError):
                await asyncio.wait_for(ann.subscribe("all", "x >= 0"), 3)

    asyncio.run(main())
    outputs = [end(each) for each in network.routers.values()]
    assert any(code == 1 and "must be linked as a tree" in output for code, output in outputs)


@needs_server
def test_a_router_that_does_not_answer(network):
    async def main():
        async with network.client("nobody"):
            pass

    with pytest.raises(RoutingError, match="router 'nobody' does not answer: start it with"):
        asyncio.run(main())


def test_no_server_answers():
    url = f"nats://127.0.0.1:{free_port()}"
    message = run_failing("router", "a", "--schema", SCHEMA, "--nats", url)
    assert message.startswith(f"error: no NATS server answers at {url}")
    assert "start one with `nats-server`" in message


def test_nats_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "nats", None)
    message = run_failing("router", "a", "--schema", SCHEMA)
    assert message == "error: routers need nats-py: pip install 'tocsin[nats]'\n"


def test_names_are_tokens():
    message = run_failing("router", "a.b", "--schema", SCHEMA)
    assert "must consist of letters, digits, - and _; got 'a.b'" in message
    with pytest.raises(RoutingError, match="got 'a b'"):
        RouterClient("a b")
