"""webqs: open questions answered from memory (WebQuestions)."""

from runner import run

run("webqs")
