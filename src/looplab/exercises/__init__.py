"""Exercises: what is wanted and asked, and how runs and answers are marked."""
