"""The number of a bid's channel, from its name or from its address."""

import re

from nexmark.rows import rows

KNOWN = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
NUMBER = re.compile("(&|^)channel_id=([^&]*)")


def row(bid):
    number = KNOWN.get(bid["channel"].lower())
    if number is None:
        found = NUMBER.search(bid["url"])
        if found is None:
            return None
        number = found[2]
    return f"{bid['auction']},{bid['bidder']},{bid['price']},{bid['channel']},{number}"


flow = rows("q21", row)
