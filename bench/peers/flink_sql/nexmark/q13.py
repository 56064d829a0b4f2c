"""Bids with the text that a table of 10,000 rows has for their auction."""

import os
from pathlib import Path

from nexmark.bids import answer, environment

folder = Path(os.environ["PEERS_INPUT"]).parent / "side_input"
environment.execute_sql(
    f"""CREATE TABLE texts (
        `number` BIGINT, `value` STRING, since AS TO_TIMESTAMP_LTZ(0, 3), WATERMARK FOR since AS since,
        PRIMARY KEY (`number`) NOT ENFORCED
    ) WITH ('connector' = 'filesystem', 'path' = 'file://{folder}', 'format' = 'csv')"""
)
environment.execute_sql("CREATE VIEW numbered AS SELECT *, MOD(auction, 10000) AS `number` FROM bids")
answer(
    "auction BIGINT, bidder BIGINT, price BIGINT, `at` STRING, `value` STRING",
    """SELECT auction, bidder, price, CAST(`at` AS STRING), `value`
    FROM numbered JOIN texts FOR SYSTEM_TIME AS OF numbered.`at` ON numbered.`number` = texts.`number`""",
)
