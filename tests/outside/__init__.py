"""Situations from public reports of people who do this job, one file a kind."""
