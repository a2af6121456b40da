"""sst5: five grades of sentiment of film-review sentences."""

from runner import run

run("sst5")
