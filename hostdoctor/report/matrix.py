"""The P2P predictions as one matrix of text."""

from __future__ import annotations

from collections.abc import Iterator
from string import ascii_lowercase

from hostdoctor.report.model import HostReport, PairReport

_WORDS = {"holds": "yes", "fails": "no", "unknown": "?"}


def matrix_lines(host: HostReport, width: int) -> Iterator[str]:
    """Rows read columns; a letter in a cell points to the reason below. Nothing where there are no pairs."""
    if not host.pairs:
        return
    addresses = list(dict.fromkeys(pair.accessor for pair in host.pairs))
    names = short_names(addresses)
    cells = {(pair.accessor, pair.owner): pair for pair in host.pairs}
    letters = letters_of(host.pairs)
    longest = max(len(name) for name in names.values())
    column = max(longest, 5) + 1
    if 6 + longest + column * len(addresses) > width:
        yield from _as_list(host.pairs, names, letters)
    else:
        heads = "".join(f"{names[address]:>{column}}" for address in addresses)
        yield "  P2P, row reads column (expected, not measured)"
        yield f"  {'':{longest}}{heads}"
        for row in addresses:
            marks = "".join(f"{_cell(cells.get((row, owner)), letters):>{column}}" for owner in addresses)
            yield f"  {names[row]:>{longest}}{marks}"
    if len(letters) > 1:
        for reason, letter in letters.items():
            yield f"  {letter}: {reason}"


def short_names(addresses: list[str]) -> dict[str, str]:
    """Addresses without what all have in common: the domain 0000 and function 0."""
    plain = all(address.startswith("0000:") and address.endswith(".0") for address in addresses)
    return {address: address[5:-2] if plain else address for address in addresses}


def letters_of(pairs: tuple[PairReport, ...]) -> dict[str, str]:
    """A letter for each reason why P2P is not expected, or a number where letters do not suffice."""
    reasons = dict.fromkeys(pair.reason for pair in pairs if pair.p2p != "holds")
    names = ascii_lowercase if len(reasons) <= len(ascii_lowercase) else [str(number) for number in range(len(reasons))]
    return dict(zip(reasons, names, strict=False))


def _cell(pair: PairReport | None, letters: dict[str, str]) -> str:
    if pair is None:
        return "-"
    word = _WORDS[pair.p2p]
    return word if pair.p2p == "holds" or len(letters) < 2 else f"{word} {letters[pair.reason]}"


def _as_list(pairs: tuple[PairReport, ...], names: dict[str, str], letters: dict[str, str]) -> Iterator[str]:
    """Too many GPUs for the width: each accessor with the owners of each verdict."""
    yield "  P2P, accessor: owners (expected, not measured)"
    by_accessor: dict[str, dict[str, list[str]]] = {}
    for pair in pairs:
        groups = by_accessor.setdefault(pair.accessor, {})
        groups.setdefault(_cell(pair, letters), []).append(names[pair.owner])
    for accessor, groups in by_accessor.items():
        for mark, owners in groups.items():
            are_all = len(groups) == 1 and len(owners) == len(by_accessor) - 1 > 1
            yield f"  {names[accessor]} {mark}: {f'all {len(owners)} others' if are_all else ' '.join(owners)}"
