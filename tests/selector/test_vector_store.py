"""A bank in a LangChain vector store: the store searches, the DPP chooses."""

import pytest
from refusing import refused
from selector_words import QUERY, ROWS, Words, ids, words

from ceil_jax import CeilSelector

pytest.importorskip("langchain_core")
import pyarrow
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
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
    assert "row-45" not in ids(own)
    assert own.excluded > 0
    assert "row-45" in ids(live.select(ROWS[45]["input"], k=20, own_answer=True))
    for wrong in (lambda: live.examples, lambda: live.add(ROWS), lambda: live.save_pretrained("x")):
        with refused("the examples are the vector store's"):
            wrong()


def test_filters_are_the_stores_own_and_what_changes_is_seen(store):
    live = CeilSelector.from_vector_store(store, output_key="label")
    chosen = live.select(QUERY, k=9, filter=lambda document: document.metadata["town"] == "town2")
    assert len(chosen) > 3
    assert {example.fields["town"] for example in chosen} == {"town2"}
    nearest = live.select(QUERY, k=1).examples[0]
    store.delete([nearest.id])
    assert nearest.id not in ids(live.select(QUERY, k=9))


def test_a_document_that_is_no_example_is_left_out_and_named_once(store, caplog):
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
    before = ids(live.select(question, k=4))
    store.add_documents([Document(question + " too", id="odd", metadata={"town": "x"})])
    for _ in range(2):
        assert ids(live.select(question, k=4)) == before
    assert caplog.text.count("document odd is left out: documents of the store: no column") == 1
    assert caplog.text.count("is left out: ") == 1


def test_many_documents_that_are_no_examples_are_one_line(store, caplog):
    with refused("no column 'output'"):
        CeilSelector.from_vector_store(store).select(QUERY, k=4)
    assert not caplog.text  # the refusal says it
    store.add_documents([Document(f"{QUERY} too, {number}") for number in range(5)])
    live = CeilSelector.from_vector_store(store, output_key="label", shortlist=20)
    for _ in range(2):
        live.select(QUERY, k=4)
    assert caplog.text.count("left out") == 2
    assert "; 4 more are left out" in caplog.text


def test_a_label_in_a_list_of_one_is_its_item():
    listed = InMemoryVectorStore(DeterministicFakeEmbedding(size=16))
    labels = [["good"], ["bad"], ["good", "bad"], {"choices": ["good"]}]
    listed.add_texts(
        [f"film {i}" for i in range(4)], metadatas=[{"output": label} for label in labels]
    )
    chosen = CeilSelector.from_vector_store(listed).select("a film", k=4)
    assert {example.input: example.output for example in chosen} == {
        "film 0": "good",
        "film 1": "bad",
    }
    with refused("expected a text that is not empty, found .'good', 'bad'."):
        only = InMemoryVectorStore(DeterministicFakeEmbedding(size=16))
        only.add_texts(["film"], metadatas=[{"output": ["good", "bad"]}])
        CeilSelector.from_vector_store(only).select("a film", k=1)


def test_a_retriever_is_no_store_and_has_one(store):
    retriever = store.as_retriever()
    with refused(
        "expected a LangChain VectorStore: that of a retriever is its attribute vectorstore"
    ):
        CeilSelector.from_vector_store(retriever)
    selector = CeilSelector.from_vector_store(retriever.vectorstore, output_key="label")
    # as in `if selector:`, though its length is not known
    assert selector
    assert CeilSelector.from_examples([], encoder="tiny")


def test_a_class_of_stores_is_no_store():
    with refused("store is <class .*expected a LangChain VectorStore"):
        CeilSelector.from_vector_store(InMemoryVectorStore)


@pytest.mark.parametrize("blank", [" ", "\n\t", "\u00a0"])
def test_a_blank_document_is_left_out(blank):
    blank_too = InMemoryVectorStore(DeterministicFakeEmbedding(size=16))
    texts = [*(f"film {i}" for i in range(6)), blank]
    blank_too.add_texts(texts, metadatas=[{"output": "good"}] * 7)
    chosen = CeilSelector.from_vector_store(blank_too).select("a film", k=7)
    assert len(chosen) == 6


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
    assert len(chosen) == 9
    assert {example.fields["town"] for example in chosen} == {"town2"}
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


def test_a_query_is_embedded_once(store):
    asked = []
    embed = store.embeddings.embed_query
    store.embeddings.embed_query = lambda text: asked.append(text) or embed(text)
    live = CeilSelector.from_vector_store(store, output_key="label")
    live.select(QUERY, k=3)
    live.select(QUERY, k=5)
    assert asked == [QUERY]


def test_a_store_that_searches_by_texts_alone(store):
    class Texts:
        embeddings = store.embeddings
        similarity_search = staticmethod(store.similarity_search)

        def similarity_search_by_vector(self, embedding, k=4, **more):
            raise NotImplementedError

    plain = CeilSelector.from_vector_store(store, output_key="label")
    texts = CeilSelector.from_vector_store(Texts(), output_key="label")
    assert ids(texts.select(QUERY, k=4)) == ids(plain.select(QUERY, k=4))


def test_a_store_that_is_down_is_one_line(store):
    class Down:
        embeddings = store.embeddings

        def similarity_search(self, query, k=4):
            raise ConnectionError("connection refused\nat 127.0.0.1:8000")

    Down.similarity_search_by_vector = Down.similarity_search
    with refused(
        "the vector store Down failed: ConnectionError: connection refused at 127.0.0.1:8000; see"
    ):
        CeilSelector.from_vector_store(Down()).select(QUERY, k=1)


class Filtering:
    """Filters by mappings; LanceDB does so after fetching, unless it is told."""

    def __init__(self, store):
        self.store = store
        self.embeddings = store.embeddings

    def similarity_search(self, query, k=4, filter=None, **more):
        return self.similarity_search_by_vector(self.embeddings.embed_query(query), k, filter)

    def similarity_search_by_vector(self, embedding, k=4, filter=None, prefilter=False):
        if filter and not prefilter:
            least = k
            k = 1000
            nearest = self.store.similarity_search_by_vector(embedding, k=least)
        else:
            nearest = self.store.similarity_search_by_vector(embedding, k=1000)
        passing = [
            document
            for document in nearest
            if all(document.metadata.get(name) == value for name, value in (filter or {}).items())
        ]
        return passing[:k]


class LanceDB(Filtering):
    pass


def test_lancedb_is_told_to_filter_before_it_fetches(store):
    live = CeilSelector.from_vector_store(LanceDB(store), output_key="label")
    assert len(live.select(QUERY, k=9, filter={"town": "town2"})) == 9
    late = CeilSelector.from_vector_store(
        LanceDB(store), output_key="label", search={"prefilter": False}, shortlist=9
    )
    assert len(late.select(QUERY, k=9, filter={"town": "town2"})) < 9


class LanceDBOfRows(Filtering):
    """As LangChain's: documents are made of a table's rows by a method, without the rows' ids."""

    _id_key = "key"

    def similarity_search_by_vector(self, embedding, k=4, filter=None, prefilter=False):
        documents = super().similarity_search_by_vector(embedding, k, filter, prefilter)
        columns = {
            "key": [document.id for document in documents],
            "text": [document.page_content for document in documents],
            "metadata": [document.metadata for document in documents],
        }
        return self.results_to_docs(pyarrow.table(columns))

    def results_to_docs(self, results, score=False):
        rows = results.to_pylist()
        return [Document(row["text"], metadata=row["metadata"]) for row in rows]


LanceDBOfRows.__name__ = "LanceDB"


def test_the_documents_of_lancedb_have_their_ids(store):
    rows = LanceDBOfRows(store)
    chosen = ids(CeilSelector.from_vector_store(rows, output_key="label").select(QUERY, k=5))
    assert chosen == ids(
        CeilSelector.from_vector_store(store, output_key="label").select(QUERY, k=5)
    )
    assert all(id.startswith("row-") for id in chosen)
    [found] = rows.similarity_search(QUERY, k=1)
    assert found.id is None, "the store itself is as it was"


def test_a_store_that_ignores_a_filter_is_told(store):
    class Deaf(Filtering):
        def similarity_search_by_vector(self, embedding, k=4, filter=None):
            return self.store.similarity_search_by_vector(embedding, k=k)

    live = CeilSelector.from_vector_store(Deaf(store), output_key="label")
    with refused("the vector store Deaf gave a document with 'town' = .*ignores filter="):
        live.select(QUERY, k=9, filter={"town": "town2"})
    # what is in the store's own language is the store's
    assert len(live.select(QUERY, k=9, filter={"town": {"$eq": "town2"}})) == 9


def test_a_filter_that_nothing_passes_behaves_as_in_a_bank_of_ones_own(store):
    live = CeilSelector.from_vector_store(LanceDB(store), output_key="label")
    own = CeilSelector.from_examples(ROWS, encoder=Words())
    for selector, said in ((live, "no document of the store has"), (own, "no example has")):
        with refused(f"filter: {said} 'town' = 'nowhere'"):
            selector.select(QUERY, k=2, filter={"town": "nowhere"})
    empty = CeilSelector.from_vector_store(LanceDB(InMemoryVectorStore(WordEmbeddings())))
    assert len(empty.select(QUERY, k=2, filter={"town": "nowhere"})) == 0


def test_an_encoder_named_is_loaded_once(store, monkeypatch):
    loaded = []
    monkeypatch.setattr(
        "ceil_jax.training.free.encoder.load_encoder", lambda name: loaded.append(name) or Words()
    )
    live = CeilSelector.from_vector_store(store, encoder="words", output_key="label")
    assert len(live.select(QUERY, k=2)) == 2
    assert loaded == ["words"]


def test_what_does_not_fit(store):
    with refused(
        r"documents of the store: no column 'output'; it has 'label', 'town', .*output_key"
    ):
        CeilSelector.from_vector_store(store).select(QUERY, k=1)
    with refused("expected a LangChain VectorStore"):
        CeilSelector.from_vector_store({})
    empty = CeilSelector.from_vector_store(InMemoryVectorStore(WordEmbeddings()))
    assert (len(empty.select(QUERY, k=3)), empty.select(QUERY, k=3).stopped) == (0, "exhausted")
