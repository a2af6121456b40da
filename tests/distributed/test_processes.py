"""Two processes of two devices each on this machine: one training, one search, one run folder."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from xla_flags import flags_for

from ceil_jax.distributed import processes as hosts
from ceil_jax.distributed.devices import over_devices
from ceil_jax.distributed.processes import Hosts
from ceil_jax.errors import UserError
from ceil_jax.retrieval.index import top_k, top_k_of_all_processes
from ceil_jax.store.store import Store
from ceil_jax.training.loop import fit, gradient_of

ROWS, WIDTH, STEPS = 10, 3, 16
DIES_AT = 9  # checkpoints are at steps 2, 4, 6, 8 …


def numbers(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def train(folder, at_step=lambda step: None, leads=True):
    """In-batch contrast of a linear map, with a random part that depends on a row's place."""
    data = numbers(0, ROWS, WIDTH)

    def embed(params, rows, *, key):
        return jnp.tanh(rows @ params["w"]) + 0.1 * jax.random.normal(key, rows.shape)

    def loss(params, batch, key):
        vectors = over_devices(embed)(params, batch, key=key)
        logits = vectors @ vectors.T
        return (jax.nn.logsumexp(logits, axis=1) - jnp.roll(logits, 1, 1).diagonal()).mean()

    def batches(step, rows):
        at_step(step)
        return data[rows]

    with Store(folder, leads=leads).stage("training", {}) as stage:
        return fit(
            stage,
            {"w": jnp.eye(WIDTH)},
            gradient_of(loss),
            batches,
            lambda params: {"kendall_tau": np.abs(np.asarray(params["w"])).sum(axis=1)},
            instances=ROWS,
            epochs=8,
            batch_size=5,  # four devices do not divide it
            learning_rate=0.05,
            seed=0,
            what="training",
        )


def member(folder, port, process, fatal):
    """The work of one process of the job."""
    hosts.start(Hosts(f"127.0.0.1:{port}", 2, process))
    seen = []

    def at_step(step):
        seen.append(step)
        if fatal and process == 1 and step == DIES_AT:
            os.kill(os.getpid(), signal.SIGKILL)

    trained = train(folder, at_step, hosts.leads())
    queries, items = numbers(1, 4, WIDTH), np.round(numbers(2, 31, WIDTH))
    scores, indices = top_k_of_all_processes(queries, items, 6, np.array([0, 30, -1, 16]))
    Path(folder, f"process-{process}.json").write_text(
        json.dumps(
            {
                "devices": [jax.local_device_count(), jax.device_count()],
                "first": seen[0],
                "w": np.asarray(trained.params["w"]).tolist(),
                "history": trained.history,
                "scores": scores.tolist(),
                "indices": indices.tolist(),
                "mapped": hosts.mapped(lambda share: np.arange(7)[share] ** 2, 7).tolist(),
            }
        )
    )


def job(folder, fatal=False):
    """Start both processes; their exit codes, what the first said, and how long it lived on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    root = os.pathsep.join(str(Path(__file__).parents[i]) for i in (1, 2))
    environment = {**os.environ, "XLA_FLAGS": flags_for(2), "PYTHONPATH": root, "JAX_PLATFORMS": "cpu"}
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, str(folder), str(port), str(i), str(int(fatal))],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in (0, 1)
    ]
    try:
        processes[1].wait(200)
        ended = time.monotonic()
        said = processes[0].communicate(timeout=60)[1]
        return [process.returncode for process in processes], said, time.monotonic() - ended
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_a_job_that_lost_a_process_goes_on_from_its_checkpoint(tmp_path):
    codes, said, seconds = job(tmp_path, fatal=True)
    assert codes == [2, -signal.SIGKILL]
    assert "training: lost another process of this job" in said
    assert "start the job again: it goes on from its last checkpoint" in said
    assert seconds < 60
    codes, said, _ = job(tmp_path)
    assert codes == [0, 0], said

    results = [json.loads((tmp_path / f"process-{i}.json").read_text()) for i in (0, 1)]
    alone = train(tmp_path / "alone")
    scores, indices = top_k(
        numbers(1, 4, WIDTH), np.round(numbers(2, 31, WIDTH)), 6, np.array([0, 30, -1, 16])
    )
    for result in results:
        assert result["devices"] == [2, 4]
        assert result["first"] == DIES_AT - 1  # of steps counted from 0: the checkpoint after 8 of them
        np.testing.assert_allclose(result["w"], alone.params["w"], atol=1e-5)
        assert [row["step"] for row in result["history"]] == list(range(0, STEPS + 1, 2))
        np.testing.assert_allclose(result["scores"], scores, atol=1e-6)
        assert result["indices"] == indices.tolist()
        assert result["mapped"] == [i * i for i in range(7)]
    assert results[0]["w"] == results[1]["w"]


@pytest.mark.parametrize("count, each", [(7, [4, 3]), (1, [1, 0]), (0, [0, 0])])
def test_shares_are_all_the_rows(monkeypatch, count, each):
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    rows = []
    for process in (0, 1):
        monkeypatch.setattr(jax, "process_index", lambda process=process: process)
        rows.append(list(range(count)[hosts.share(count)]))
    assert [len(share) for share in rows] == each
    assert [*rows[0], *rows[1]] == list(range(count))


def test_a_follower_waits_for_what_the_leader_writes_and_writes_nothing(tmp_path):
    def use(store):
        with store.stage("rows", {}) as stage:
            stage.write("who.txt", b"leader" if stage.leads else b"follower")
            rows = stage.rows(5, lambda a, b: [i * i for i in range(a, b)], chunk=2, what="squares")
            keyed = stage.keyed_rows(
                ["b", "a", "b"], lambda keys: [2 * key for key in keys], chunk=1, what=""
            )
            stage.save("array.npy", np.arange(3))
            return list(rows), list(keyed), stage.load("array.npy").tolist(), stage.finish({"n": 5})

    with ThreadPoolExecutor(1) as pool:
        follower = pool.submit(use, Store(tmp_path, leads=False))
        time.sleep(0.2)
        assert not follower.done()
        leader = use(Store(tmp_path))
        assert follower.result(timeout=30) == leader
    assert leader == ([0, 1, 4, 9, 16], ["bb", "aa", "bb"], [0, 1, 2], {"n": 5})
    [file] = tmp_path.glob("rows-*/who.txt")
    assert file.read_bytes() == b"leader"


def test_flags_that_do_not_fit():
    with pytest.raises(UserError, match="belong together"):
        hosts.start(Hosts(processes=2, process=0), {})
    with pytest.raises(UserError, match="--process 2: expected 0 to 1"):
        hosts.start(Hosts("localhost:1", 2, 2), {})


def test_one_process_needs_nothing():
    hosts.start(environment={"SLURM_NTASKS": "1", "SLURM_PROCID": "0"})
    assert jax.process_count() == 1


if __name__ == "__main__":
    out, number, which, dying = sys.argv[1:]
    try:
        member(out, int(number), int(which), bool(int(dying)))
    except hosts.HostLost as error:
        print(f"ceil-jax: {error}", file=sys.stderr, flush=True)
        os._exit(2)
