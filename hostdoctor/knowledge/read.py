"""Reads a compiled table, and answers what a list of kernel trees says about a kernel between them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

import msgspec

T = TypeVar("T")

_FOLDER = os.path.dirname(__file__)

KernelPair = tuple[int, int]


def read_table(name: str, type_: type[T]) -> T:
    """The table `name`.json beside this file, decoded and checked against its type."""
    with open(os.path.join(_FOLDER, f"{name}.json"), "rb") as file:
        return msgspec.json.decode(file.read(), type=type_)


def in_range(id_: str, first: str, last: str) -> bool:
    """Whether a PCI id ("8086:a113") lies between two others, both included; ids are lower-case hexadecimal."""
    return first <= id_ <= last and id_[:5] == first[:5]


def _pair(tree: str) -> KernelPair:
    major, minor = tree.split(".")
    return int(major), int(minor)


def presence(kernel: KernelPair, present_in: Iterable[str], absent_in: Iterable[str]) -> bool | None:
    """Whether something that was looked for in some kernel trees is in this kernel.

    A kernel newer than the newest tree counts as the newest, one older than the oldest as the oldest. Trees are stable
    trees ("6.12" is 6.12.117): what a late stable release has, an early one may lack.

    Args:
        kernel: major and minor, (6, 8).
        present_in: trees that have it, "6.12".
        absent_in: trees that lack it.

    Returns:
        None where the kernel lies between a tree that has it and one that lacks it. True where no tree is named.
    """
    trees = sorted([(_pair(tree), True) for tree in present_in] + [(_pair(tree), False) for tree in absent_in])
    if not trees:
        return True
    below = [found for tree, found in trees if tree <= kernel]
    above = [found for tree, found in trees if tree >= kernel]
    last_below = below[-1] if below else above[0]
    first_above = above[0] if above else last_below
    return last_below if last_below == first_above else None
