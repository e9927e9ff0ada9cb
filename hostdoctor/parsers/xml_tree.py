"""XML of tools as a tree of elements, read with nothing in it that could reach beyond the text or grow.

A document type that declares anything of its own (entities above all) is refused; one that only names a file, as
nvidia-smi's and hwloc's do, is allowed, and that file is not looked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from xml.parsers import expat

LARGEST_CHARS = 16 << 20
DEEPEST = 96
MOST_ELEMENTS = 200_000
_LONGEST_TEXT = 4096


class Element:
    """One element.

    Attributes:
        tag: its name.
        attributes: as they stand there.
        line: of its start tag, from 0.
        children: the elements directly in it.
        text: the text directly in it, without blanks around it.
    """

    __slots__ = ("attributes", "children", "line", "tag", "text")

    def __init__(self, tag: str, attributes: Mapping[str, str], line: int) -> None:
        self.tag, self.attributes, self.line = tag, attributes, line
        self.children: list[Element] = []
        self.text = ""

    def child(self, tag: str) -> Element | None:
        """The first child of that name."""
        return next((each for each in self.children if each.tag == tag), None)

    def at(self, path: str) -> str:
        """The text at a path of names, "pci/pci_bus_id"; empty where there is none."""
        here: Element | None = self
        for tag in path.split("/"):
            here = here.child(tag) if here else None
        return here.text.strip() if here else ""

    def all(self, tag: str) -> Iterator[Element]:
        """This element and all below it that have a name, in document order."""
        waiting = [self]
        while waiting:
            here = waiting.pop()
            if here.tag == tag:
                yield here
            waiting += reversed(here.children)


class _Refused(Exception):
    """The document wants more than this reader gives."""


class _Builder:
    """Builds the tree while expat goes through the text."""

    def __init__(self) -> None:
        self.root = Element("", {}, 0)
        self._open = [self.root]
        self._elements = 0
        self.parser = expat.ParserCreate("utf-8")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.EntityDeclHandler = self._refuse
        self.parser.ExternalEntityRefHandler = self._refuse

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._elements += 1
        if self._elements > MOST_ELEMENTS or len(self._open) > DEEPEST:
            raise _Refused
        element = Element(tag, attributes, self.parser.CurrentLineNumber - 1)
        self._open[-1].children.append(element)
        self._open.append(element)

    def _end(self, _tag: str) -> None:
        done = self._open.pop()
        done.text = done.text.strip()

    def _text(self, text: str) -> None:
        here = self._open[-1]
        if len(here.text) < _LONGEST_TEXT:
            here.text += text[:_LONGEST_TEXT]

    def _doctype(self, _name: str, _system: str | None, _public: str | None, has_internal_subset: int) -> None:
        if has_internal_subset:
            raise _Refused

    def _refuse(self, *_: object) -> int:
        raise _Refused


def parse_xml(text: str) -> Element:
    """The elements of a document below a nameless root; of a cut or broken one those before the break."""
    builder = _Builder()
    with suppress(expat.ExpatError, _Refused):
        builder.parser.Parse(text[:LARGEST_CHARS].encode("utf-8", "replace"), True)
    return builder.root
