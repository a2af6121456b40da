"""nl2bash: English to a shell command."""

from runner import run

run("nl2bash")
