"""The package shows one list of names, each imported when it is used, and both clients alike."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import packetboat
import pytest
from packetboat import AsyncClient, Client, Options, PacketboatError
from packetboat.aio.areas import AsyncAreas
from packetboat.sync.areas import Areas

from tests.tidy.sdk_surface import CLIENTS, exported, given_by_clients

SOURCE = Path(packetboat.__file__)
HEAVY = ("asyncio", "httpx", "httpx2", "msgspec", "ssl")


def test_everything_exported_exists_and_is_documented() -> None:
    for name in packetboat.__all__:
        thing = getattr(packetboat, name)
        assert thing.__doc__, name
        if issubclass(thing, Exception):
            assert issubclass(thing, PacketboatError)


def silent(name: str, thing: Any) -> Iterator[str]:
    """Yield a class, or a method or property of ours in it, that has no docstring."""
    if not inspect.isclass(thing):
        if inspect.isroutine(thing) and not thing.__doc__:
            yield name
        return
    if (thing.__doc__ or f"{thing.__name__}(").startswith(f"{thing.__name__}("):
        yield name
    for member, value in inspect.getmembers(thing):
        code = getattr(value, "func" if isinstance(value, cached_property) else "fget", value)
        shown = inspect.isroutine(value) or isinstance(value, property | cached_property)
        home = getattr(code, "__module__", None) or ""
        ours = shown and home.startswith("packetboat") and not member.startswith("_")
        if ours and not inspect.getdoc(value):
            yield f"{name}.{member}"


def test_every_public_class_method_and_property_says_what_it_does() -> None:
    things = dict([*exported(), *given_by_clients()])
    assert len(things) > 200
    assert [each for name, thing in things.items() for each in silent(name, thing)] == []


def test_every_list_of_names_is_of_names_that_are_there() -> None:
    for found in pkgutil.walk_packages(packetboat.__path__, "packetboat."):
        if not found.name.startswith("packetboat.cli"):
            module = import_module(found.name)
            missing = [name for name in getattr(module, "__all__", ()) if not hasattr(module, name)]
            assert missing == [], found.name


def test_what_type_checkers_see_is_what_there_is() -> None:
    seen = {
        alias.name: node.module
        for node in ast.walk(ast.parse(SOURCE.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("packetboat.")
        for alias in node.names
    }
    assert seen == packetboat._HOME_OF
    assert sorted(seen) == packetboat.__all__
    assert set(packetboat.__all__) <= set(dir(packetboat))


def test_names_that_are_not_there_are_said_so() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Cleint'"):
        _ = packetboat.Cleint


WITHOUT_A_TIMEOUT = {"handle", "hold", "publish_room", "resume_key"}
"""Calls of these names send nothing, or wait for as long as the caller says."""


@pytest.mark.parametrize("side", CLIENTS)
def test_every_call_and_every_stream_takes_a_timeout(side: str) -> None:
    clients = {"aio": (AsyncClient, AsyncAreas), "sync": (Client, Areas)}
    client, areas = clients[side]
    things: list[Any] = [client]
    for name in areas.__annotations__:
        if not name.startswith("_"):
            module = import_module(f"packetboat.{side}.resources.{name}")
            things.append(getattr(module, areas.__annotations__[name]))
    without = {
        f"{thing.__name__}.{name}"
        for thing in things
        for name, value in inspect.getmembers(thing, inspect.isfunction)
        if not name.startswith("_") and "timeout_s" not in inspect.signature(value).parameters
    }
    assert {each for each in without if each.rpartition(".")[2] not in WITHOUT_A_TIMEOUT} == set()


RETRIES = {
    "packetboat": "RetryPolicy",
    "packetboat.models": "RetryPolicy",
    "packetboat.tasks": "RetryLater",
    "packetboat.webhooks": "DeliverLater",
    "packetboat.worker": "RetryLater",
}


@pytest.mark.parametrize(("module", "now"), RETRIES.items())
def test_no_two_classes_are_called_retry_and_the_old_name_warns(module: str, now: str) -> None:
    home = import_module(module)
    assert "Retry" not in home.__all__
    with pytest.warns(DeprecationWarning, match=f"is called {now} since"):
        assert home.Retry is getattr(home, now)


def imported_by(statement: str) -> set[str]:
    program = f"{statement}\nimport sys\nprint(*sys.modules)"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_imports_nothing_heavy() -> None:
    """The interpreter is held to, not the clock: what starts with any of these is slow."""
    assert imported_by("import packetboat").isdisjoint(HEAVY)


def test_a_blocking_client_imports_no_asyncio() -> None:
    assert "asyncio" not in imported_by("from packetboat import Client")


@pytest.mark.parametrize("name", ["Client", "AsyncClient"])
def test_a_client_imports_http_when_it_is_made(name: str) -> None:
    assert imported_by(f"from packetboat import {name}").isdisjoint({"httpx", "httpx2"})


Surface = dict[str, tuple[Any, ...]]


def surface(thing: object) -> Surface:
    """Return public methods and their parameters, without the words of asyncio."""
    return {
        name: (parameters(method), plain(inspect.getdoc(method)))
        for name, method in inspect.getmembers(type(thing), callable)
        if not name.startswith("_")
    }


def parameters(method: Any) -> list[tuple[str, object, object, str]]:
    return [
        (each.name, each.kind, each.default, plain(str(each.annotation)))
        for each in inspect.signature(method).parameters.values()
    ]


def plain(text: str | None) -> str:
    text = re.sub(r"\b(async|await) ", "", text or "")
    text = re.sub(r"\bAsync(?=[A-Z])", "", text).replace("aclose", "close")
    return re.sub(r"\b(Iterable\[\w+\]) \| \1", r"\1", text)


def resources(client: Client | AsyncClient) -> dict[str, object]:
    areas = AsyncAreas if isinstance(client, AsyncClient) else Areas
    names = [name for name in inspect.get_annotations(areas) if not name.startswith("_")]
    assert set(names) <= set(dir(client))
    return {name: getattr(client, name) for name in names}


@pytest.fixture
def clients() -> tuple[Client, AsyncClient]:
    options = Options()
    return Client(options=options), AsyncClient(options=options)


OTHERWISE = {"flush", "publish", "publish_room"}
"""`publish` returns at once in both clients; a thread that blocks has a timeout instead of room."""


def test_both_clients_have_one_surface(clients: tuple[Client, AsyncClient]) -> None:
    sync, asynchronous = (surface(client) for client in clients)
    assert sync["publish"][0] == asynchronous["publish"][0]
    for name in OTHERWISE:
        sync.pop(name, None)
        asynchronous.pop(name, None)
    assert sync == asynchronous


def test_an_area_is_made_once(clients: tuple[Client, AsyncClient]) -> None:
    for client in clients:
        assert client.topics is client.topics
        with pytest.raises(AttributeError, match="no attribute 'topic'"):
            _ = client.topic  # type: ignore[union-attr]


def test_their_resources_too(clients: tuple[Client, AsyncClient]) -> None:
    sync, asynchronous = (resources(client) for client in clients)
    assert list(sync) == list(asynchronous)
    assert len(sync) > 15
    for name, resource in sync.items():
        assert surface(resource) == surface(asynchronous[name]), name


def test_everything_that_a_client_does_is_documented(clients: tuple[Client, AsyncClient]) -> None:
    silent = [
        f"{name}.{method}"
        for client in clients
        for name, thing in {"client": client, **resources(client)}.items()
        for method, (_, doc) in surface(thing).items()
        if not doc
    ]
    assert silent == []
