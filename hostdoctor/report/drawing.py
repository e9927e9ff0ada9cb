"""The topology as SVG: a panel for each host bridge, with what hangs on it below it.

Panels are as wide as a phone's screen, so that a page can put them side by side or one below the other. A link is drawn
the thicker the more lanes it uses; one that limits a card is dashed and says so in words, for whoever sees no colours.
Everything is laid out here: text is cut to what fits, by the widest of the fonts that browsers take.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Mapping, Sequence
from html import escape

import msgspec

import hostdoctor.templates
from hostdoctor import wording
from hostdoctor.findings import Finding, Outcome
from hostdoctor.report.devices import (
    Device,
    described,
    device_trees,
    is_short,
    lanes_of,
    limit_words,
    link_words,
    place_of,
    port_of,
    title_of,
    walk,
)
from hostdoctor.report.model import TopologyReport
from hostdoctor.report.phrases import safe

WIDTH = 320
_STEP, _DEEPEST = 22, 6  # what lies deeper is not moved further to the right
_BOX, _FLAT_BOX, _LABEL, _GAP = 42, 28, 14, 12
_ICON, _TEXT = 9, 33  # from the left edge of a box
_BADGE = {"failure": 50, "warning": 54}
_TRUNK = 10
# Width of a character by the kind of text: the size of its font, times that of a monospaced or the widest bold sans-serif one.
_CHARACTER = {"port": 10.5 * 0.61, "place": 10.5 * 0.61, "rate": 11 * 0.61, "limit": 11 * 0.66, "name": 12.5 * 0.66}
_COLUMNS, _MARGIN = 3, 20

# On 16 by 16 units.
_ICONS = {
    "host-bridge": "M4 4h8v8H4zM6.5 1v3M9.5 1v3M6.5 12v3M9.5 12v3M1 6.5h3M1 9.5h3M12 6.5h3M12 9.5h3",
    "chipset": "M3 3h10v10H3zM6 6h4v4H6z",
    "not-known": "M8 1.5a6.5 6.5 0 1 0 .01 0zM6 6.2a2 2 0 1 1 2.6 1.9q-.6.3-.6 1.1M8 11.4v.2",
    "switch": "M1.5 5h12M10.5 2l3 3-3 3M14.5 11h-12M5.5 8l-3 3 3 3",
    "bridge": "M1 12V9.5a7 5 0 0 1 14 0V12M1 9.8h14",
    "card": "M1.5 1.5v13M1.5 3.5h13v7h-13M9.2 4.9a2.1 2.1 0 1 0 .01 0zM4.5 10.5v2.5h5v-2.5",
    "network": "M5.5 1.5h5v4h-5zM1.5 10.5h5v4h-5zM9.5 10.5h5v4h-5zM8 5.5V8M4 10.5V8h8v2.5",
    "nvme": "M1.5 4.5h13v7h-13zM4.5 7v2M7 7v2M11.8 8h.4",
}


class Panel(msgspec.Struct, frozen=True):
    """The drawing of one tree.

    Attributes:
        title: "Host bridge 0000:17", with its memory node.
        holds: what is on it, "4 GPUs".
        gpus: how many.
        svg: an svg element of WIDTH units.
        height: in the same units.
    """

    title: str
    holds: str
    gpus: int
    svg: str
    height: int


def style() -> str:
    """The style sheet of the drawing, for light, dark and paper."""
    with open(os.path.join(os.path.dirname(hostdoctor.templates.__file__), "drawing.css"), encoding="utf-8") as file:
        return file.read()


def panels(topology: TopologyReport, findings: Sequence[Finding] = ()) -> list[Panel]:
    """A drawing of each tree; GPUs that findings call faulty are marked."""
    marks = _marks(findings)
    return [_panel(root, number, marks) for number, root in enumerate(device_trees(topology))]


def whole_svg(topology: TopologyReport) -> str:
    """The drawing as one file: the panels in up to three columns."""
    made = panels(topology)
    columns = min(_COLUMNS, len(made)) or 1
    ends = [_MARGIN] * columns
    parts = []
    for panel in made:
        at = ends.index(min(ends))
        parts.append(f'<g transform="translate({_MARGIN + at * (WIDTH + _MARGIN)} {ends[at]})">{panel.svg}</g>')
        ends[at] += panel.height + _MARGIN
    legend = list(_LEGEND) if made else ["no discrete GPU here"]
    if topology.left_out:
        legend.append(f"Not drawn: {wording.count(topology.left_out, 'more drive or network card')} away from the GPUs.")
    bottom = max(ends)
    for line in legend:
        bottom += 18
        parts.append(f'<text class="legend" x="{_MARGIN}" y="{bottom}">{escape(line)}</text>')
    width, height = max(columns * (WIDTH + _MARGIN) + _MARGIN, 620), bottom + _MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="topology" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}">\n<style>{style()}</style>\n<rect class="sheet" width="{width}" height="{height}"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


_LEGEND = (
    "A link is the thicker the more lanes it uses. GB/s: each way, at best under load.",
    "Dashed, with a triangle: the narrowest link on the way of a card that could use more.",
)


def _marks(findings: Sequence[Finding]) -> Mapping[str, Outcome]:
    """The worst that is said of each single device; of pairs too much is said to mark both."""
    marks: dict[str, Outcome] = {}
    for outcome in ("warning", "failure"):
        for finding in findings:
            if finding.outcome == outcome and len(finding.subject) == 1:
                marks[finding.subject[0]] = finding.outcome
    return marks


def _panel(root: Device, number: int, marks: Mapping[str, Outcome]) -> Panel:
    sheet = _Sheet(marks)
    for device, depth in walk(root):
        sheet.add(device, min(depth, _DEEPEST))
    sheet.end()
    gpus = len(root.all_gpus)
    place = place_of(root)
    title = safe(f"{title_of(root)}, {place}" if place and root.kind == "host-bridge" else title_of(root))
    names = f'aria-labelledby="topology-{number}-title topology-{number}-text"'
    words = escape(safe("; ".join(line.strip() for line in described(root))))
    svg = (
        f'<svg class="topology" role="img" {names} viewBox="0 0 {WIDTH} {sheet.y}" width="{WIDTH}" height="{sheet.y}">'
        f'<title id="topology-{number}-title">{escape(title)}</title><desc id="topology-{number}-text">{words}</desc>'
        f"{''.join(sheet.lines)}{''.join(sheet.parts)}</svg>"
    )
    return Panel(title, _holds(root, gpus), gpus, svg, sheet.y)


def _holds(root: Device, gpus: int) -> str:
    parts = [wording.count(gpus, "GPU")] if gpus else []
    for kind, word in (("switch", "switch"), ("network", "network card"), ("nvme", "drive")):
        found = sum(device.count for device, _ in walk(root) if device.kind == kind)
        if found:
            parts.append(f"{found} {word}" if found == 1 else f"{found} {word}{'es' if word.endswith('ch') else 's'}")
    return ", ".join(parts)


class _Sheet:
    """What is drawn so far, from top to bottom; `y` is its lower end."""

    def __init__(self, marks: Mapping[str, Outcome]) -> None:
        self.y = 1
        self.lines: list[str] = []  # below the boxes
        self.parts: list[str] = []
        self._marks = marks
        self._ends: dict[int, tuple[int, int]] = {}  # by depth: where the trunk begins, and how far it goes

    def add(self, device: Device, depth: int) -> None:
        """Draw a device below what is there, and its link to the one above."""
        x = _STEP * depth
        self._close(depth)
        if depth:
            self.y += _GAP
            self._labels(device, x)
        place = place_of(device)
        height = _BOX if place else _FLAT_BOX
        if depth:
            self._link(device, depth, self.y + height // 2)
        self._box(device, x, height, place)
        self.y += height
        self._ends[depth] = (self.y, self.y)

    def end(self) -> None:
        """Draw the trunks that are still open."""
        self._close(0)
        self.y += 1

    def _close(self, depth: int) -> None:
        for deeper in [each for each in self._ends if each >= depth]:
            begin, end = self._ends.pop(deeper)
            if end > begin:
                x = _STEP * deeper + _TRUNK
                self.lines.append(f'<path class="trunk" d="M{x} {begin}V{end}"/>')

    def _link(self, device: Device, depth: int, y: int) -> None:
        above = depth - 1
        begin, _ = self._ends.get(above, (y, y))
        self._ends[above] = (begin, y)
        left, right = _STEP * above + _TRUNK, _STEP * depth
        lanes = lanes_of(device)
        kind = "link limits" if device.limits else "link" if lanes else "link unclear"
        kind += " short" if device.limits and is_short(device) else ""
        width = 1.5 + min(lanes, 16) * 0.32
        self.lines.append(f'<path class="{kind}" stroke-width="{width:.1f}" d="M{left} {y}H{right}"/>')

    def _labels(self, device: Device, x: int) -> None:
        if port := port_of(device):
            self._label("port", x + 2, port)
        if device.link is not None:
            self._label("rate", x + 2, link_words(device.link))
        if words := limit_words(device):
            kind = "mark short" if is_short(device) else "mark"
            self.parts.append(f'<path class="{kind}" d="M{x + 3} {self.y + 10}h9l-4.5-8z"/>')
            self._label("limit short" if is_short(device) else "limit", x + 16, words)
        self.y += 3

    def _label(self, kind: str, x: int, text: str) -> None:
        self.parts.append(_text(kind, x, self.y + _LABEL - 4, text, int((WIDTH - x) / _CHARACTER[kind.split(maxsplit=1)[0]])))
        self.y += _LABEL

    def _box(self, device: Device, x: int, height: int, place: str) -> None:
        y, width = self.y, WIDTH - x - 1
        self.parts.append(f'<rect class="box {device.kind}" x="{x + 0.5}" y="{y}" width="{width}" height="{height}" rx="6"/>')
        at = f"translate({x + _ICON} {y + height // 2 - 8})"
        self.parts.append(f'<path class="icon {device.kind}" transform="{at}" d="{_ICONS[device.kind]}"/>')
        space = width - _TEXT - 8
        fits = int(space / _CHARACTER["name"])
        self.parts.append(_text(f"name {device.kind}", x + _TEXT, y + 18, title_of(device), fits))
        badge = self._badge(device, x + width, y)
        if place:
            fits = int((space - badge) / _CHARACTER["place"])
            self.parts.append(_text(f"place {device.kind}", x + _TEXT, y + 33, place, fits))

    def _badge(self, device: Device, right: int, y: int) -> int:
        """Mark a card with the worst that is said of it; how much room that takes."""
        said = {self._marks[each] for each in (device.address, *(gpu.address for gpu in device.gpus)) if each in self._marks}
        if not said:
            return 0
        worst = "failure" if "failure" in said else "warning"
        width = _BADGE[worst]
        x = right - width - 5
        self.parts.append(f'<rect class="badge {worst}" x="{x}" y="{y + 22}" width="{width}" height="15" rx="7.5"/>')
        self.parts.append(f'<text class="badge {worst}" x="{x + width / 2}" y="{y + 33}" text-anchor="middle">{worst}</text>')
        return width + 8


def _text(kind: str, x: int, y: int, text: str, cells: int) -> str:
    """Text, cut to that many characters; then the whole of it shows where one points at it."""
    whole = safe(text)
    cut = _cut(whole, cells)
    more = "" if cut == whole else f"<title>{escape(whole)}</title>"
    return f'<text class="{kind}" x="{x}" y="{y}">{more}{escape(cut)}</text>'


def _cut(text: str, cells: int) -> str:
    """Text of at most that many cells; a sign of East Asian width, or one that fonts draw wide, takes two."""
    widths = [2 if unicodedata.east_asian_width(sign) in "WF" or ord(sign) > 0x2FFF else 1 for sign in text]
    if sum(widths) <= cells:
        return text
    taken = 0
    for number, width in enumerate(widths):
        taken += width
        if taken > cells - 1:
            return text[:number] + "…"
    return text
