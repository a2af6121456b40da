# The lazy names of __init__.py for type checkers. Functions under jax.jit are written out, because jax
# types a compiled function as one that takes and returns anything; a test compares them with the real ones.

from jax import Array
from jax.typing import ArrayLike

from ceil_jax.dpp.distribution import log_normalizer as log_normalizer
from ceil_jax.dpp.distribution import subset_log_det as subset_log_det
from ceil_jax.dpp.greedy import MapResult as MapResult
from ceil_jax.dpp.kernel import conditional_kernel as conditional_kernel
from ceil_jax.dpp.kernel import similarity_from_features as similarity_from_features
from ceil_jax.encoders.encoder import Encoder as Encoder
from ceil_jax.encoders.example_encoder import ExampleEncoder as ExampleEncoder
from ceil_jax.encoders.registry import load_encoder as load_encoder
from ceil_jax.encoders.registry import register_encoder as register_encoder
from ceil_jax.errors import Range as Range
from ceil_jax.errors import UserError as UserError
from ceil_jax.lm import LanguageModel as LanguageModel
from ceil_jax.lm import load_lm as load_lm
from ceil_jax.lm.prompts import register_order as register_order
from ceil_jax.lm.registry import register_lm as register_lm
from ceil_jax.methods.base import LearnsFromOutputs as LearnsFromOutputs
from ceil_jax.methods.base import LearnsFromScores as LearnsFromScores
from ceil_jax.methods.base import Method as Method
from ceil_jax.methods.base import TrainingJob as TrainingJob
from ceil_jax.methods.build import build_retriever as build_retriever
from ceil_jax.methods.ceil import CEIL as CEIL
from ceil_jax.methods.epr import EPR as EPR
from ceil_jax.methods.free import Free as Free
from ceil_jax.methods.free import Labels as Labels
from ceil_jax.methods.registry import register_retriever as register_retriever
from ceil_jax.methods.registry import register_row as register_row
from ceil_jax.methods.row import Row as Row
from ceil_jax.methods.tst import TST as TST
from ceil_jax.methods.untrained import Untrained as Untrained
from ceil_jax.metrics import Metric as Metric
from ceil_jax.metrics import register_metric as register_metric
from ceil_jax.pipeline.config import RunConfig as RunConfig
from ceil_jax.pipeline.evaluate import evaluate as evaluate
from ceil_jax.pipeline.setup import open_run as open_run
from ceil_jax.report.compare import compare as compare
from ceil_jax.retrieval.retriever import Choice as Choice
from ceil_jax.retrieval.retriever import Needs as Needs
from ceil_jax.retrieval.retriever import Queries as Queries
from ceil_jax.retrieval.retriever import Retrieved as Retrieved
from ceil_jax.retrieval.retriever import Retriever as Retriever
from ceil_jax.retrieval.retriever import RetrieverArguments as RetrieverArguments
from ceil_jax.retrieval.retriever import choice_of as choice_of
from ceil_jax.retrieval.retrievers import MAP as MAP
from ceil_jax.retrieval.retrievers import NEAREST as NEAREST
from ceil_jax.retrieval.retrievers import Ranking as Ranking
from ceil_jax.selector import CeilSelector as CeilSelector
from ceil_jax.selector import Selection as Selection
from ceil_jax.selector.adapters.dspy import CeilFewShot as CeilFewShot
from ceil_jax.selector.adapters.langchain import CeilExampleSelector as CeilExampleSelector
from ceil_jax.selector.adapters.lm_eval import CeilSampler as CeilSampler
from ceil_jax.selector.adapters.lm_eval import choose_few_shot as choose_few_shot
from ceil_jax.selector.classifier import LabelClassifier as LabelClassifier
from ceil_jax.tasks import TASKS as TASKS
from ceil_jax.tasks import Example as Example
from ceil_jax.tasks import Task as Task
from ceil_jax.tasks import Template as Template
from ceil_jax.tasks import register_task as register_task
from ceil_jax.tasks.load import load_task as load_task
from ceil_jax.training.free.encoder import register_head as register_head
from ceil_jax.training.losses import SetScores as SetScores
from ceil_jax.training.losses import info_nce_loss as info_nce_loss
from ceil_jax.training.losses import pairwise_margin_loss as pairwise_margin_loss
from ceil_jax.training.losses import register_loss as register_loss

def greedy_map(kernel: ArrayLike, k: int, valid: ArrayLike | None = None) -> MapResult: ...
def greedy_map_from_features(
    features: ArrayLike,
    relevance: ArrayLike,
    k: int,
    trade_off: ArrayLike,
    valid: ArrayLike | None = None,
) -> MapResult: ...
def sample_dpp(key: Array, kernel: ArrayLike) -> Array: ...
def sample_k_dpp(key: Array, kernel: ArrayLike, k: int) -> Array: ...
