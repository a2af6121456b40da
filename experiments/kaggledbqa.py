"""kaggledbqa: text to SQL on real-world databases; the bank is Spider's (Skill-KNN)."""

from runner import run

run("kaggledbqa")
