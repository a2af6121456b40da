"""PostgreSQL with pgvector: `python postgres.py FOLDER` prints its address and serves until it is
ended."""

import sys
import time

import pgserver


def main(folder: str) -> None:
    with pgserver.get_server(folder) as server:
        server.psql("CREATE EXTENSION IF NOT EXISTS vector")
        print(server.get_uri(), flush=True)
        while True:
            time.sleep(60)


if __name__ == "__main__":
    main(sys.argv[1])
