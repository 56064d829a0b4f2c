"""A game has millions of players, each of whom plays a few games a day: what happened in each game, live.

Every shot, hit and pick-up is an event. A game of a player has no end in the log: it is over when nothing came for two
minutes, or when the player leaves. So it is not a window but a piece of state by player, with a timer; and what a
player can do is remembered for as long as they play.

    penstock run app.py
    penstock query "SELECT * FROM by_level ORDER BY level"
    penstock ask "SELECT player, level, kills FROM STATE(games) ORDER BY level DESC LIMIT 10"
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

import numpy as np

import penstock as ps

PLAYERS, SECOND = 5_000_000, 1_000_000
WEAPONS = np.array(["axe", "bow", "staff", "sling"])
QUIET = timedelta(minutes=2)


def events(numbers: np.ndarray, times: np.ndarray, chance: Any) -> dict[str, object]:
    """Players come in waves: of all of them about one in a thousand plays at a time, for some minutes."""
    wave = times // (300 * SECOND)
    player = (wave * 7_919 + (PLAYERS // 1_000) * chance.uniform() ** 2).astype(np.int64) % PLAYERS
    what = np.where(chance.uniform() < 0.2, "kill", np.where(chance.uniform() < 0.002, "leave", "hit"))
    cheats = player % 997 == 0
    points = np.where(what == "kill", 100, 10) * np.where(cheats, 20, 1) * (1 + 4 * chance.uniform())
    weapon = WEAPONS[(player + (chance.uniform() * 2).astype(np.int64)) % len(WEAPONS)]
    return {"player": player, "what": what, "weapon": weapon, "points": points.astype(np.int64), "at": times}


class Games(ps.Processor):
    """One row for each game of a player, when it is over."""

    output = "player bigint, kills bigint, points bigint, weapon string, level int, begun timestamp, at timestamp"
    sides: ClassVar = {"suspects": "player bigint, points bigint, at timestamp"}

    # of the game at hand
    begun = ps.value("timestamp")
    last = ps.value("timestamp")
    kills = ps.value("bigint", default=0)
    points = ps.value("bigint", default=0)
    weapons = ps.map_of("string", "bigint")
    # of the player, for a month after the last game
    career = ps.value("bigint", default=0, ttl="30 days")
    level = ps.value("int", default=1, ttl="30 days")

    def on_event(self, key, event, time):
        if self.last is not None and time - self.last > QUIET:
            yield from self.over(key, self.last + QUIET)  # the timer comes later than this event of another game
        self.begun = min(self.begun or time, time)
        self.last = max(self.last or time, time)
        self.points += event.points
        if event.what == "kill":
            self.kills += 1
            self.weapons[event.weapon] = self.weapons.get(event.weapon, 0) + 1
        if event.points > 1_000:
            self.emit_to("suspects", player=key, points=event.points, at=time)
        if event.what == "leave":
            yield from self.over(key, time)
        else:
            self.set_timer(self.last + QUIET, name="quiet")

    def on_timer(self, key, timer):
        yield from self.over(key, timer.at)

    def over(self, key, at):
        self.career += self.points
        self.level = max(self.level, 1 + self.career // 10_000)
        best = max(self.weapons, key=lambda weapon: (self.weapons[weapon], weapon), default=None)
        yield {
            "player": key, "kills": self.kills, "points": self.points, "weapon": best, "level": self.level,
            "begun": self.begun, "at": at,
        }  # fmt: skip
        del self.begun, self.last, self.kills, self.points
        self.weapons.clear()
        self.cancel_timer("quiet")


app = ps.App("player_statistics")

played = app.stream(
    "played",
    ps.generator(events, rate=5_000, disorder="2 seconds", late=0.001, lateness="1 minute"),
    schema="player bigint, what string, weapon string, points bigint, at timestamp",
    event_time="at",
    watermark=ps.bounded("5 seconds"),
    keep="1 day",
)

games = app.process(
    "games", played, Games, by="player", allow_late="30 seconds", event_time="at", watermark=ps.bounded("2 minutes")
)

app.view("by_level", games.group_by("level").agg(games=ps.count(), points=ps.avg("points")))
app.view(
    "best_of_the_hour",
    games.window(ps.fixed("1 hour"))
    .agg(points=ps.top(10, "points"), players=ps.top(10, "points", value="player"), games=ps.count())
    .trigger(ps.on_time(early=ps.each())),
)
app.view("by_weapon", games.where("weapon IS NOT NULL").group_by("weapon").agg(games=ps.count(), kills=ps.sum("kills")))
app.view("suspects", games.side("suspects").group_by("player").agg(times=ps.count(), most=ps.max("points")))
