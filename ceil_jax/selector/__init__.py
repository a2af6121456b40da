"""What an application imports: a live bank, its encoders and λ behind one `select`."""

from ceil_jax.selector.card import Card
from ceil_jax.selector.choice import Selected, Selection
from ceil_jax.selector.selector import CeilSelector

__all__ = ["Card", "CeilSelector", "Selected", "Selection"]
