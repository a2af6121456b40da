"""llama.cpp's server: `python llama_cpp.py FILE.gguf MODEL PORT`."""

import os
import sys
import time

import xllamacpp


def main(file: str, model: str, port: int) -> None:
    params = xllamacpp.CommonParams()
    params.model.path = file
    params.model_alias = {model}
    params.n_ctx = 2048
    params.n_parallel = 1
    # the other half is for the run that asks it
    params.cpuparams.n_threads = max(1, (os.cpu_count() or 2) // 2)
    params.port = port
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
