"""Record commands in a terminal as an animated SVG.

    pip install pyte
    python docs/terminal.py docs/terminal.svg "xagents-ray train ppo --env …" …

The commands run for real, one after another, and the picture shows what they print at
the pace at which they do, with pauses cut to one second.
"""

import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

import pyte

COLUMNS, ROWS = 88, 16
WIDTH, HEIGHT = 8.4, 18.0
"""Of a character, in pixels."""
LONGEST = 1.0
"""Seconds without a change that are shown."""
END = 6.0
"""Seconds for which the last picture stays before the recording begins again."""
_STILL = "@media (prefers-reduced-motion:reduce){text{animation:none!important}}"
"""For readers who asked for less motion: they see the last picture."""
COLORS = {
    "default": "#d4d7dd",
    "red": "#f28b82",
    "green": "#81c995",
    "brown": "#fdd663",
    "blue": "#8ab4f8",
    "magenta": "#e6a1f5",
    "cyan": "#78d9ec",
}


class Frame(NamedTuple):
    """What the terminal shows from a moment on."""

    seconds: float
    rows: tuple[str, ...]  # each row's content as SVG


def outputs(command: str) -> Iterator[tuple[float, bytes]]:
    """Run a command in a terminal; yield what it prints, and when."""
    process, terminal = pty.fork()
    if process == 0:
        environment = {**os.environ, "TERM": "xterm-256color"}
        os.execvpe("sh", ["sh", "-c", command], environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    while True:
        select.select([terminal], [], [])
        try:
            printed = os.read(terminal, 65536)
        except OSError:  # it has ended
            break
        if not printed:
            break
        yield time.monotonic(), printed
    _, status = os.waitpid(process, 0)
    if status:
        raise SystemExit(f"{command} failed.")


def frames(commands: Sequence[str]) -> Iterator[Frame]:
    """Yield each picture that differs from the one before, at most five a second."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream, shown, now = pyte.ByteStream(screen), 0.0, 0.0
    for command in commands:
        stream.feed(f"\x1b[1m$ {command}\x1b[0m\r\n".encode())
        yield Frame(now, picture(screen))
        last = time.monotonic()
        for moment, printed in outputs(command):
            now += min(moment - last, LONGEST)
            last = moment
            stream.feed(printed)
            if now - shown >= 0.2:
                shown = now
                yield Frame(now, picture(screen))
        now += 0.2
        yield Frame(now, picture(screen))
        now += LONGEST


def picture(screen: pyte.Screen) -> tuple[str, ...]:
    """Return the screen's rows as SVG, one span for each style."""
    rows = []
    for y in range(ROWS):
        spans, start = [], 0
        cells = [screen.buffer[y][x] for x in range(COLUMNS)]
        for x in range(1, COLUMNS + 1):
            same = x < COLUMNS and style(cells[x]) == style(cells[start])
            if not same:
                text = "".join(cell.data for cell in cells[start:x])
                if text.strip():
                    spans.append(
                        f'<tspan x="{start * WIDTH:g}" {style(cells[start])} '
                        f'textLength="{(x - start) * WIDTH:g}">{escape(text)}</tspan>'
                    )
                start = x
        rows.append("".join(spans))
    return tuple(rows)


def style(cell: pyte.screens.Char) -> str:
    """Return a character's attributes in SVG."""
    color = COLORS.get(cell.fg, f"#{cell.fg}" if len(cell.fg) == 6 else "#d4d7dd")
    return f'fill="{color}"' + (' font-weight="bold"' if cell.bold else "")


def svg(recorded: Sequence[Frame]) -> str:
    """Return frames as an SVG that repeats them; each row is drawn where it changes."""
    total = recorded[-1].seconds + END
    width, height = COLUMNS * WIDTH + 32, ROWS * HEIGHT + 48
    parts, rules = [], []
    for y in range(ROWS):
        begun = 0
        for i in range(1, len(recorded) + 1):
            row = recorded[begun].rows[y]
            if i < len(recorded) and recorded[i].rows[y] == row:
                continue
            if row:
                name = f"r{y}-{begun}"
                start = 100 * recorded[begun].seconds / total
                end = 100 * recorded[i].seconds / total if i < len(recorded) else 100
                hidden = f"0%,{start:.2f}%{{opacity:0}}" if start else ""
                after = f"{end:.2f}%,100%{{opacity:0}}" if end < 100 else ""
                rules.append(
                    f"@keyframes {name}{{{hidden}{start + 0.01 * bool(start):.2f}%,"
                    f"{end - 0.01 * (end < 100):.2f}%{{opacity:1}}{after}}}"
                    f"#{name}{{animation:{name} {total:.1f}s infinite}}"
                )
                # Where animations are off, the last picture is shown.
                opacity = "" if i == len(recorded) else ' opacity="0"'
                parts.append(
                    f'<text id="{name}" y="{(y + 1) * HEIGHT:g}"{opacity}>{row}</text>'
                )
            begun = i
    lights = "".join(
        f'<circle cx="{18 + 18 * i}" cy="16" r="5.5" fill="{color}"/>'
        for i, color in enumerate(("#f28b82", "#fdd663", "#81c995"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}">'
        f"<style>text{{font:14px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',"
        f"monospace;white-space:pre}}{''.join(rules)}{_STILL}</style>"
        f'<rect width="{width:g}" height="{height:g}" rx="8" fill="#1f2430" '
        f'stroke="#3a4050"/>{lights}'
        f'<g transform="translate(16 30)">{"".join(parts)}</g></svg>\n'
    )


if __name__ == "__main__":
    path, *given = sys.argv[1:]
    Path(path).write_text(svg(list(frames(given))), encoding="utf-8")
