"""Who sells in category 10 and lives in some states."""

from nexmark.events import answer, near

answer(
    "name STRING, city STRING, state STRING, auction BIGINT",
    f"""SELECT person.name, person.city, person.state, auction.id
    FROM auction JOIN person ON auction.seller = person.id AND {near("auction.`at`", "person.`at`")}
    WHERE auction.category = 10 AND person.state IN ('OR', 'ID', 'CA')""",
)
