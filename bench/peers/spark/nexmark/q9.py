"""The bid that wins an auction."""

from nexmark.winning import run_winning

run_winning()
