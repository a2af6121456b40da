"""spider: text to SQL on databases never seen (Skill-KNN).

    python experiments/spider.py --scale small --data-dir DATA

small is a bank of 200, 40 queries, 5 orders of the demonstrations, 3 seeds of random: 1,200 rewrites and 14
evaluations. It has not been run, nor has any answer been scored. DATA is a folder with spider/ in the hub's column
names, tables.json and databases; the hub has neither.

Measured 2026-11-22 on 2 CPU cores, rewriting alone, one order, bank of 44 and 20 queries (bfloat16; 22 s and 41 s):
no rewrite was empty, ran away or repeated an input, and they hardly depend on it. SmolLM2-135M-Instruct: 14 different
skills, 51 of 64 questions get "The query must take one selection, each with its own equality condition.", "How many
bands are there?" among them. gemma-3-270m: 18 different skills, 40 of 64 "The query must return one column of rows
that meet at least one of two conditions: less than a value, or equal to a value.", the prompt's last demonstration.
Of eleven of each read by eye none is right; one follows its input in part ("… apartments that have no facility": "rows
that meet the condition of having no facility", SmolLM2).
"""

import sys

from ceil_jax.skill_experiments import SkillOptions, main

if __name__ == "__main__":
    sys.exit(main(SkillOptions(tasks=("spider",)), "spider"))
