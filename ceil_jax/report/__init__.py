"""Runs to a page: tables beside the paper's numbers, figures, and every query with its examples."""
