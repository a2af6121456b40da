"""Choosing in-context examples: CEIL, EPR, Skill-KNN and their baselines, in JAX."""
