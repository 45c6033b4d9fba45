"""Measuring: a suite of prompts, variants that take turns, statistics with intervals, and reports."""
