"""What a listener would like, by the model of the app in this directory, also while it runs.

python recommend.py PERSON [DIRECTORY]
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from penstock.learning import load


def main() -> None:
    person, directory = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ".penstock"
    app = runpy.run_path(str(Path(__file__).parent / "app.py"))
    newest = load(directory, "live")
    for version in (newest.versions[0].number, newest.version):
        print(f"version {version}", app["taste"].recommend(load(directory, "live", version), person, 5), sep="\n")


if __name__ == "__main__":
    main()
