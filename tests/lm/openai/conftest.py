"""A server for each module, without faults when a test begins."""

import pytest
from lm_server import Server, listening


@pytest.fixture(scope="module")
def server():
    return Server()


@pytest.fixture(scope="module")
def address(server):
    with listening(server) as address:
        yield address


@pytest.fixture(autouse=True)
def well(server):
    server.clear()
