"""A bank in a LangChain vector store: the store searches, the DPP chooses."""

import pytest
from refusing import refused
from selector_words import QUERY, ROWS, Words, ids, words

from ceil_jax import CeilSelector

pytest.importorskip("langchain_core")
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore


class WordEmbeddings(Embeddings):
    """Counts the documents that it embeds."""

    def __init__(self):
        self.embedded = 0

    def embed_documents(self, texts):
        self.embedded += len(texts)
        return Words().encode(texts).tolist()

    def embed_query(self, text):
        return Words().encode([text])[0].tolist()


@pytest.fixture
def store():
    store = InMemoryVectorStore(WordEmbeddings())
    for row in ROWS:
        metadata = {"label": row["output"], "town": row["town"]}
        store.add_documents([Document(row["input"], id=row["id"], metadata=metadata)])
    return store


def test_the_same_examples_as_from_a_bank_of_ones_own(store):
    settings = {"trade_off": 0.1, "shortlist": 20, "count_tokens": words}
    live = CeilSelector.from_vector_store(store, output_key="label", **settings)
    own = CeilSelector.from_examples(ROWS, encoder=Words(), **settings)
    for options in ({"k": 5}, {"token_budget": 20}, {"k": 4, "near_duplicate": None}):
        assert ids(live.select(QUERY, **options)) == ids(own.select(QUERY, **options))
    assert live.select(QUERY, k=2).prompt.endswith(f"\n\n{QUERY}\n")
    assert live.select(QUERY, k=1).examples[0].fields.keys() == {"town"}
    own = live.select(ROWS[45]["input"], k=20)
    assert "row-45" not in ids(own) and own.excluded > 0
    assert "row-45" in ids(live.select(ROWS[45]["input"], k=20, own_answer=True))
    for wrong in (lambda: live.examples, lambda: live.add(ROWS), lambda: live.save_pretrained("x")):
        with refused("the examples are the vector store's"):
            wrong()


def test_filters_are_the_stores_own_and_what_changes_is_seen(store):
    live = CeilSelector.from_vector_store(store, output_key="label")
    chosen = live.select(QUERY, k=9, filter=lambda document: document.metadata["town"] == "town2")
    assert len(chosen) > 3 and {example.fields["town"] for example in chosen} == {"town2"}
    nearest = live.select(QUERY, k=1).examples[0]
    store.delete([nearest.id])
    assert nearest.id not in ids(live.select(QUERY, k=9))


def test_a_document_that_is_no_example_is_named_by_its_id(store):
    live = CeilSelector.from_vector_store(store, output_key="label", shortlist=20)
    question = ROWS[45]["input"]
    assert (
        len(
            CeilSelector.from_vector_store(store, output_key="label", shortlist=4).select(
                question, k=4
            )
        )
        == 4
    )
    store.add_documents([Document(question + " too", id="odd", metadata={"town": "x"})])
    with refused("documents of the store, document odd: no field 'label'"):
        live.select(question, k=4)


def test_stores_that_filter_what_they_fetched_and_hide_ids_among_the_metadata(store):
    """FAISS filters the nearest fetch_k documents; Qdrant's documents have no id of their own."""

    class Store:
        embeddings = store.embeddings

        def similarity_search(self, query, k=4, filter=None, fetch_k=20):
            found = store.similarity_search(query, k=fetch_k if filter else k)
            return [
                Document(
                    d.page_content, metadata={**d.metadata, "_id": d.id, "_collection_name": "c"}
                )
                for d in found
                if not filter or d.metadata["town"] == filter["town"]
            ][:k]

    live = CeilSelector.from_vector_store(Store(), output_key="label")
    chosen = live.select(QUERY, k=9, filter={"town": "town2"})
    assert len(chosen) == 9 and {example.fields["town"] for example in chosen} == {"town2"}
    assert all(
        example.id.startswith("row-") and set(example.fields) == {"town"} for example in chosen
    )
    few = CeilSelector.from_vector_store(Store(), output_key="label", search={"fetch_k": 10})
    assert len(few.select(QUERY, k=9, filter={"town": "town2"})) < 9


def test_documents_are_embedded_once(store):
    live = CeilSelector.from_vector_store(store, output_key="label", shortlist=15)
    before = store.embeddings.embedded
    live.select(QUERY, k=3)
    kept = {row["input"] for row in ROWS} & set(live.bank._vectors)
    assert store.embeddings.embedded - before == len(kept)
    again = store.embeddings.embedded
    live.select(QUERY, k=5)
    assert store.embeddings.embedded == again


def test_an_encoder_named_is_loaded_once(store, monkeypatch):
    loaded = []
    monkeypatch.setattr(
        "ceil_jax.encoders.registry.load_encoder", lambda name: loaded.append(name) or Words()
    )
    live = CeilSelector.from_vector_store(store, encoder="words", output_key="label")
    assert len(live.select(QUERY, k=2)) == 2 and loaded == ["words"]


def test_what_does_not_fit(store):
    with refused(
        r"documents of the store: no column 'output'; it has 'label', 'town', .*output_key"
    ):
        CeilSelector.from_vector_store(store).select(QUERY, k=1)
    with refused("expected a LangChain VectorStore"):
        CeilSelector.from_vector_store({})
    empty = CeilSelector.from_vector_store(InMemoryVectorStore(WordEmbeddings()))
    assert (len(empty.select(QUERY, k=3)), empty.select(QUERY, k=3).stopped) == (0, "exhausted")
