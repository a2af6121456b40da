"""hellaswag: HellaSwag itself, which of four endings follows; the paper does not measure it."""

from runner import run

run("hellaswag")
