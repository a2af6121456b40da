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
from ceil_jax.encoders.registry import load_encoder as load_encoder
from ceil_jax.encoders.registry import register_encoder as register_encoder
from ceil_jax.errors import UserError as UserError
from ceil_jax.lm import LanguageModel as LanguageModel
from ceil_jax.lm import load_lm as load_lm
from ceil_jax.retrieval.registry import Needs as Needs
from ceil_jax.retrieval.registry import Retrieved as Retrieved
from ceil_jax.retrieval.registry import Retriever as Retriever
from ceil_jax.retrieval.registry import build_retriever as build_retriever
from ceil_jax.retrieval.registry import register_retriever as register_retriever
from ceil_jax.selector import CeilSelector as CeilSelector
from ceil_jax.selector import Selection as Selection
from ceil_jax.tasks import TASKS as TASKS
from ceil_jax.tasks.example import Example as Example
from ceil_jax.tasks.example import Task as Task
from ceil_jax.tasks.example import Template as Template
from ceil_jax.tasks.load import load_task as load_task
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
