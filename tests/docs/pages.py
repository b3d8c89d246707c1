"""Markdown pages as the tests see them: headings, links, fenced blocks and the comments before them."""

import dataclasses
import functools
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


@dataclasses.dataclass
class Fence:
    language: str
    line: int
    lines: list
    notes: dict  # of comments right before it, such as <!-- not run: it needs root -->
    generated: bool

    def text(self):
        return "\n".join(self.lines)


@dataclasses.dataclass
class Page:
    path: pathlib.Path
    headings: list = dataclasses.field(default_factory=list)
    links: list = dataclasses.field(default_factory=list)  # (line, target)
    fences: list = dataclasses.field(default_factory=list)
    indented: list = dataclasses.field(default_factory=list)  # lines of blocks that are indented instead of fenced

    def name(self):
        return str(self.path.relative_to(ROOT))

    def anchors(self):
        found, count = set(), {}
        for heading in self.headings:
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            number = count.get(slug, 0)
            count[slug] = number + 1
            found.add(f"{slug}-{number}" if number else slug)
        return found


NOTE = re.compile(r"<!-- (not run|needs|schema|run in): (.*?) -->$")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]*)\)")


@functools.cache
def read(path):
    page, fence, notes, generated, before = Page(path), None, {}, False, ""
    in_list = False
    for number, line in enumerate(path.read_text().split("\n"), 1):
        if fence:
            if line.strip() == "```":
                page.fences.append(fence)
                fence = None
            else:
                fence.lines.append(line.removeprefix(" " * indent))
            continue
        if opened := re.match(r"( *)```([\w-]*)$", line):
            indent = len(opened[1])
            fence = Fence(opened[2], number, [], notes, generated)
            notes = {}
            continue
        if note := NOTE.match(line.strip()):
            notes[note[1]] = note[2]
            continue
        generated = generated and "<!-- end of generated -->" not in line or "<!-- generated: " in line
        if line.strip():
            notes = {}
        if line.startswith("#"):
            page.headings.append(line.lstrip("#").strip())
        in_list = in_list and (not line.strip() or line.startswith(" ")) or bool(re.match(r" *([-*]|\d+\.) ", line))
        if line.startswith("    ") and not before.strip() and not in_list:
            page.indented.append(number)
        page.links += [(number, target) for target in LINK.findall(re.sub(r"`[^`]*`", "", line))]
        before = line
    if fence:
        raise ValueError(f"{path}:{fence.line}: a block without an end")
    return page


def tree(suffixes, below=""):
    """Files of the repository, without what is built and without the history."""
    found = []
    for file in sorted((ROOT / below).rglob("*")):
        parts = file.relative_to(ROOT).parts
        if parts[0] in ("build", ".git", "shared") or "__pycache__" in parts or not file.is_file():
            continue
        if file.suffix in suffixes:
            found.append(file)
    return found


def documents():
    return [read(file) for file in tree({".md"}, "docs")]


def every_page():
    return [read(file) for file in tree({".md"}) if "corpus" not in file.parts]
