"""The bid that wins an auction."""

from nexmark.events import read
from nexmark.rows import write
from nexmark.winning import winning

write(read, winning)
