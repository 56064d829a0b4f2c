"""The bid that wins an auction."""

from nexmark.events import app
from nexmark.winning import winning

app.view("q9", winning())
