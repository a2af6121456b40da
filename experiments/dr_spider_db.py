"""dr_spider.db: Spider under perturbed databases (Dr.Spider; Skill-KNN)."""

from runner import run

run("dr_spider.db")
