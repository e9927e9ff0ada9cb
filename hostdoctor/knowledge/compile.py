"""`python -m hostdoctor.knowledge.compile` turns each *.toml of this folder into the *.json beside it.

An entry that has `rows` stands for its rows: each becomes an entry of its own and inherits the other keys, except
`about`, which tells the reader of the file what the rows have in common.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent


def flatten(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Replaces each entry that has rows by one entry for each of them."""
    flat: list[dict[str, Any]] = []
    for entry in entries:
        if "rows" in entry:
            shared = {key: value for key, value in entry.items() if key not in ("rows", "about")}
            flat += [{**shared, **row} for row in entry["rows"]]
        else:
            flat.append(entry)
    return flat


def compile_toml(text: str) -> str:
    """The JSON of a TOML file: compact, keys sorted, one line."""
    table = {key: flatten(value) if isinstance(value, list) else value for key, value in tomllib.loads(text).items()}
    return json.dumps(table, ensure_ascii=False, separators=(",", ":"), sort_keys=True) + "\n"


def compiled(folder: Path = FOLDER) -> dict[Path, str]:
    """What each JSON file must hold."""
    return {
        source.with_suffix(".json"): compile_toml(source.read_text(encoding="utf-8"))
        for source in sorted(folder.glob("*.toml"))
    }


def main() -> None:
    """Writes every JSON file."""
    for path, text in compiled().items():
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path.name}: {len(text)} bytes\n")


if __name__ == "__main__":
    main()
