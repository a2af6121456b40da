"""cmsqa: common-sense questions with five options (CommonsenseQA)."""

from runner import run

run("cmsqa")
