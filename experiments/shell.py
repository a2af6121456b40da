"""shell: descriptions to shell commands; embedded, so that no hub is needed."""

from runner import run

run("shell")
