"""hellaswag: which of four endings follows? HellaSwag itself, which the paper does not measure."""

from runner import run

run("hellaswag")
