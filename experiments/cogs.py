"""cogs.ps, cogs.pa: COGS, known words in new roles and known structures in new combinations (Skill-KNN).

    python experiments/cogs.py --scale small --data-dir DATA

small is a bank of 200, 40 queries a task, 5 orders of the demonstrations, 3 seeds of random: 1,400 rewrites and 28
evaluations. It has not been run to the end. By the rates below (0.25 to 0.65 s a rewrite, 15 to 22 s an evaluation)
it is 15 to 25 minutes. DATA is a folder with cogs/ in the hub's column names.

Measured 2026-11-22 on 2 CPU cores.

Rewriting, one order, bank of 44 and 20 queries of cogs.ps (bfloat16): no rewrite was empty, ran away or repeated an
input, and they hardly depend on it. SmolLM2-135M-Instruct: 6 different skills; 44 of 64 inputs, "The cake was sold
to the boy ." among them, get "A verb that governs a clause after 'that', which governs another; the innermost
clause is passive
without naming who acts.", the prompt's last demonstration. gemma-3-270m: 5 different skills, 38 of 64 "Passive voice:
the subject is the thing given, with a direct object, and who acts.". Of eleven of each read by eye none is
right; where a part is (a passive, a clause after 'that'), it is what the LM says of everything.

What is selected (--scale paper --limit 300 --no-answer --retriever random topk target_knn target_skill
target_sketch; bank 2,000, 4 examples, all-mpnet-base-v2), mean overlap of sketches with the query's in percent,
cogs.ps / cogs.pa: random 48.4 / 51.9, KNN on raw sentences 68.3 / 65.6, target-KNN 92.1 / 89.7, gold skills 99.9 /
99.5, target sketch 99.9 / 99.9. Sketch and gold skill are read off the same form, so the last two are near 100 by
construction.

What is answered (cogs.ps, the same with --limit 40 and SmolLM2-135M-Instruct, exact match and 95 % interval): random
0.0 (3 seeds), KNN on raw sentences 5.0 (0.0 to 12.5), gold skills 15.0 (5.0 to 27.5), target sketch 0.0. That is 2, 6
and 0 of 40. Equal gold skills then went to the lower place in the bank, so all 40 queries shared 7 lists of examples and
the interval over queries is too narrow; now they are drawn for each query, and nothing was answered with those yet. Of target sketch's examples 51 % have the query's gold skill, roles in order, of
gold skills' 97.5 %: a sketch is a set and says no order, which exact match asks for. Whether that, or those 7 lists,
makes the difference was not tested.
"""

import sys

from ceil_jax.skill_experiments import SkillOptions, main

if __name__ == "__main__":
    sys.exit(main(SkillOptions(tasks=("cogs.ps", "cogs.pa")), "cogs"))
