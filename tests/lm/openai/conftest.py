"""A server for each module, without faults when a test begins."""

import pytest
from lm_server import Server, listening

from ceil_jax.cli.server.service import Service
from ceil_jax.lm import TinyLM


@pytest.fixture(scope="module")
def server():
    return Server(Service(TinyLM(), "tiny"))


@pytest.fixture(scope="module")
def address(server):
    with listening(server) as address:
        yield address


@pytest.fixture(autouse=True)
def well(server):
    server.clear()
