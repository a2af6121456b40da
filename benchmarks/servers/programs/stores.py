"""Whether a vector store chooses as a selector does that holds the rows itself: `python stores.py
chroma PORT`, `pgvector ADDRESS` or `lancedb FOLDER` prints how many choices are the same, and what a
filter gives."""

import sys
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from ceil_jax import CeilSelector, load_encoder
from ceil_jax.errors import UserError

ROWS = 300
QUERIES = 20


class Encoder(Embeddings):
    """The packaged encoder, as LangChain's embeddings."""

    def __init__(self) -> None:
        self.encoder = load_encoder("all-MiniLM-L6-v2")

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = self.encoder.encode(texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


def opened(kind: str, where: str, embeddings: Embeddings) -> Any:
    """Return the store on a server."""
    if kind == "chroma":
        import chromadb
        from langchain_chroma import Chroma

        client = chromadb.HttpClient(host="127.0.0.1", port=int(where))
        metadata = {"hnsw:space": "cosine"}
        return Chroma("films", embeddings, client=client, collection_metadata=metadata)
    if kind == "lancedb":
        from langchain_community.vectorstores import LanceDB

        return LanceDB(uri=where, embedding=embeddings, table_name="films", mode="overwrite")
    from langchain_postgres import PGVector

    address = where.replace("postgresql://", "postgresql+psycopg://", 1)
    return PGVector(embeddings, connection=address, collection_name="films")


def main(kind: str, where: str) -> None:
    from ceil_jax import load_task

    task = load_task("movie_reviews", limit=QUERIES, bank_limit=ROWS)
    embeddings = Encoder()
    store = opened(kind, where, embeddings)
    documents = [
        Document(row.input, id=row.id, metadata={"output": row.output}) for row in task.train
    ]
    store.add_documents(documents, ids=[row.id for row in task.train])
    settings: dict[str, Any] = {"trade_off": 0.1, "shortlist": 50}
    live = CeilSelector.from_vector_store(store, **settings)
    in_memory = CeilSelector.from_examples(task.train, encoder=embeddings, **settings)
    same = 0
    for query in task.validation:
        chosen = [
            [example.input for example in selector.select(query.input, k=8).examples]
            for selector in (live, in_memory)
        ]
        same += chosen[0] == chosen[1]
    # LanceDB's dictionaries name a column of the table, its texts are SQL
    text = task.validation[0].input
    label = task.train[0].output
    filters: tuple[Any, Any] = ({"output": label}, {"output": "nowhere"})
    if kind == "lancedb":
        filters = (f"metadata.output = '{label}'", "metadata.output = 'nowhere'")
    filtered = live.select(text, k=8, filter=filters[0])
    passed = sum(example.output == label for example in filtered)
    known = {row.id for row in task.train}
    with_id = sum(example.id in known for example in filtered)
    try:
        refusal = f"nothing passes: {len(live.select(text, k=8, filter=filters[1]))} examples"
    except UserError as error:
        refusal = f"nothing passes: {error}"
    print(
        f"{same} of {QUERIES} choices the same; by a filter {passed} of 8, {with_id} with their "
        f"ids; {refusal}"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
