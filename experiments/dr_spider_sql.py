"""dr_spider.sql: Spider under perturbed queries (Dr.Spider; Skill-KNN)."""

from runner import run

run("dr_spider.sql")
