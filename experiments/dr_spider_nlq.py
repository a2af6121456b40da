"""dr_spider.nlq: Spider under perturbed questions (Dr.Spider; Skill-KNN)."""

from runner import run

run("dr_spider.nlq")
