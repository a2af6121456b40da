"""Generators of harm: to bytes on a disk, and to JSON that somebody else wrote.

`CEIL_JAX_CHAOS` is the number of cases of a whole run (1000), of which each kind has a share;
`--hypothesis-seed` repeats one. A case that fails is shrunk to a small one.
"""

import json
import os
import random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

CASES = int(os.environ.get("CEIL_JAX_CHAOS", "1000"))


def cases(share):
    """The settings of a kind that has this share of the cases."""
    return settings(
        max_examples=max(1, round(CASES * share)),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def _flip(content, draw):
    place = draw.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << draw.randrange(8)]) + content[place + 1 :]


def _cut(content, draw):
    return content[: draw.randrange(len(content))]


def _zeroed(content, draw):
    start = draw.randrange(len(content))
    stop = min(len(content), start + draw.choice([1, 100, 4096]))
    return content[:start] + bytes(stop - start) + content[stop:]


def _noise(content, draw):
    return draw.randbytes(draw.choice([1, 100, len(content)]))


HARMS = {"flip": _flip, "cut": _cut, "zeroed": _zeroed, "noise": _noise, "deleted": None}

harms = st.tuples(st.integers(0, 10**6), st.sampled_from(sorted(HARMS)), st.integers(0, 10**6))
"""(which file, what happens to it, seed)."""


def harm(files, chosen):
    """Harm one of some files; return what was done."""
    number, name, seed = chosen
    file = files[number % len(files)]
    content = file.read_bytes()
    if HARMS[name] is None:
        file.unlink()
    elif content:
        file.write_bytes(HARMS[name](content, random.Random(seed)))
    return f"{name} {file.name}"


odd_values = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, -7, 1.5, 2**63, 10**30, float("inf"), float("nan"), 1e308, -1e-320]),
    st.sampled_from(["", " ", "\x00", "../..", "\ud83d", "a" * 3000, "1", "[", "{input}"]),
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
        max_leaves=6,
    ),
    st.just([[[[[]]]]]),
)
"""JSON values that nobody asked for."""


def _places(value, path=()):
    yield path
    children = value.items() if isinstance(value, dict) else ()
    children = enumerate(value) if isinstance(value, list) else children
    for key, child in children:
        yield from _places(child, (*path, key))


def mutated(value, number, what, odd):
    """A JSON value in which one place is replaced, removed or given twice."""
    value = json.loads(json.dumps(value))
    paths = [path for path in _places(value) if path]
    if not paths:
        return odd
    *above, last = paths[number % len(paths)]
    parent = value
    for key in above:
        parent = parent[key]
    if what == "replaced":
        parent[last] = odd
    elif what == "removed":
        del parent[last]
    elif isinstance(parent, list):
        parent.insert(last, parent[last])
    else:
        parent[f"{last}"] = [parent[last], parent[last]]
    return value


mutations = st.tuples(
    st.integers(0, 10**6), st.sampled_from(["replaced", "removed", "twice"]), odd_values
)
