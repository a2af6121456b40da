"""swag: choose among four endings. The paper's "HellaSwag" is this dataset."""

from runner import run

run("swag")
