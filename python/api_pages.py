"""Reference pages out of the public headers, the table of settings and the rooms' READMEs, as lists of Markdown lines."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = ROOT / "include" / "smelt"
# What generated graph programs are compiled against, and what a template consists of, is not for people to call.
INTERNAL = {"graph_program.hpp", "map_table.hpp"}


def prose(lines):
    """Text of a comment as Markdown: what Markdown would take for markup outside of `code` is escaped."""

    def escaped(line):
        parts = re.split(r"(`[^`]*`)", line)
        return "".join(part if part.startswith("`") else re.sub(r"([*<>\[\]|])", r"\\\1", part) for part in parts)

    return [escaped(line) for line in lines]


def anchor(title):
    """As the usual renderers make them."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


# ---- C -----------------------------------------------------------------------------------------------------------------


def blocks(text):
    """Runs of lines between blank lines outside of braces."""
    block, depth = [], 0
    for line in text.split("\n"):
        if not line.strip() and depth == 0:
            if block:
                yield block
            block = []
            continue
        block.append(line)
        code = re.sub(r"/\*.*?\*/", "", line)
        depth += code.count("{") - code.count("}")
    if block:
        yield block


def split_comment(block):
    """The comment that a block begins with, without its stars, and the rest."""
    if not block[0].startswith("/*"):
        return [], block
    end = next(i for i, line in enumerate(block) if line.rstrip().endswith("*/"))
    text = "\n".join(block[: end + 1]).removeprefix("/*").removesuffix("*/").split("\n")
    return [re.sub(r"^ ?\*? ?", "", line).rstrip() for line in text], block[end + 1:]


def c_names(code):
    """Functions, types and macros that a block declares."""
    text = re.sub(r"/\*.*?\*/", "", "\n".join(code), flags=re.DOTALL)
    names = re.findall(r"^#define (\w+)", text, re.MULTILINE)
    outside = re.sub(r"\{.*?\}", "", text, flags=re.DOTALL)
    for statement in outside.split(";"):
        statement = " ".join(statement.split())
        if statement.startswith("typedef"):
            function = re.search(r"\(\*(\w+)\)", statement)
            names.append(function[1] if function else statement.split()[-1])
        elif found := re.search(r"\b(smelt_\w+)\(", statement):
            names.append(found[1])
    return list(dict.fromkeys(names))


def c_api():
    text = (INCLUDE / "smelt.h").read_text()
    text = text[text.index('extern "C" {\n#endif') + len('extern "C" {\n#endif'): text.rindex("#ifdef __cplusplus")]
    sections, lines = [], []
    for block in blocks(text):
        comment, code = split_comment(block)
        if heading := re.fullmatch(r"-+ (.*?) -+", " ".join(comment).strip()):
            sections.append(heading[1])
            lines += [f"## {heading[1].capitalize()}", ""]
            comment = []
        names = c_names(code)
        if names:
            lines += [f"### {', '.join(names[:4])}{', ...' if len(names) > 4 else ''}", ""]
        if comment:
            lines += [*prose(comment), ""]
        if code:
            lines += ["```c", *code, "```", ""]
    contents = ", ".join(f"[{each}](#{anchor(each)})" for each in sections)
    return [f"Sections: {contents}.", "", "## Version and errors", "", *lines][:-1]


# ---- C++ ---------------------------------------------------------------------------------------------------------------


def code_only(line):
    return re.sub(r'"(\\.|[^"\\])*"', '""', line.split("//")[0])


def without_private(code):
    """A class without what its users cannot reach."""
    kept, skipping = [], False
    for line in code:
        word = line.strip()
        if word in ("private:", "protected:"):
            skipping = True
        elif word == "public:" or (skipping and re.match(r"^};?", line)):
            skipping = False
        if not skipping and not word.startswith("friend "):
            kept.append(line)
    while len(kept) > 1 and not kept[-2].strip():
        del kept[-2]
    return kept


BODY = re.compile(r"^( *)(\S.*?\)(?: *(?:const|noexcept|&&?))*)(?: : .*?)? \{(.*\})?$")


def without_member_bodies(code):
    """Members that are defined in their class, as declarations."""
    kept, depth = [], 0
    for line in code:
        bare = code_only(line)
        if depth:
            depth += bare.count("{") - bare.count("}")
            continue
        if kept and bare.lstrip().startswith(": "):  # initializers of a constructor
            kept[-1] += ";"
            depth = bare.count("{") - bare.count("}")
            continue
        found = BODY.match(bare.rstrip())
        kept.append(f"{found[1]}{found[2]};" if found else line)
        depth = bare.count("{") - bare.count("}") if found else 0
    return kept


TYPE = re.compile(r"(?:template\s*<.*?>\s*)?(?:\[\[\w+\]\]\s*)?(?:struct|class|enum|using|inline constexpr|constexpr)\b")


def without_bodies(code):
    """A function without what it does: its declaration."""
    if TYPE.match(" ".join(code)):
        return without_member_bodies(without_private(code))
    kept = []
    for line in code:
        if line.rstrip().endswith("{"):
            return [*kept, line.rstrip().removesuffix("{").rstrip() + ";"]
        kept.append(re.sub(r" \{ .*\}$", ";", line))
    return kept


def name_of(code):
    text = " ".join(code_only(line).strip() for line in code)
    text = re.sub(r"^template\s*<[^{]*?>\s*(?=\w)", "", text).removeprefix("decltype(auto) ")
    if found := re.match(r"(?:\[\[\w+\]\]\s*)?(?:struct|class|enum class|enum)\s+(?:\[\[\w+\]\]\s*)?(\w+)", text):
        return found[1]
    if found := re.match(r"using (\w+)", text):
        return found[1]
    if found := re.search(r"(operator\S+|\w+)\s*\(", text):
        return found[1]
    found = re.search(r"(\w+)\s*(?:=|\{|;)", text)
    return found[1] if found else text[:40]


def entities(text):
    """(comment, code) of each declaration in namespace smelt itself."""
    lines = text.split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith("namespace smelt"))
    inner, comment, code, depth = 0, [], [], 0
    for line in lines[start + 1:]:
        bare = code_only(line)
        if inner or re.match(r"namespace \w+ \{", line):
            inner += bare.count("{") - bare.count("}")
            comment = []
            continue
        if not code and line.startswith("///"):
            comment.append(line[3:].removeprefix(" "))
            continue
        if not code and (not bare.strip() or bare.startswith(("#", "}"))):
            comment = []
            continue
        code.append(line)
        depth += bare.count("{") + bare.count("(") - bare.count("}") - bare.count(")")
        if depth == 0 and (bare.rstrip().endswith((";", "}"))):
            yield comment, code
            comment, code = [], []


def header(file):
    text = file.read_text()
    lines = []
    intro = re.match(r"((?://.*\n)+)", text)
    if intro:
        example = []
        for line in [each[2:].removeprefix(" ") for each in intro[1].rstrip().split("\n")] + [""]:
            if line.startswith("  "):
                example.append(line[2:])
                continue
            if example and line:
                lines += ["```cpp", *example, "```"]
                example = []
            if example:
                example.append("")
                continue
            lines += prose([line])
        if example:
            lines += ["```cpp", *[each for each in example if each], "```", ""]
    for comment, code in entities(text):
        if re.match(r"(struct|class) \w+;$", code[0].strip()) and not comment:
            continue
        lines += ["", f"### {name_of(code)}", ""]
        if comment:
            lines += [*prose(comment), ""]
        lines += ["```cpp", *without_bodies(code), "```"]
    return lines


def cpp_api():
    files = [file for file in sorted(INCLUDE.glob("*.hpp")) if file.name not in INTERNAL]
    title = {file: f"smelt/{file.name}" for file in files}
    lines = ["Headers: " + ", ".join(f"[{file.stem}](#{anchor(title[file])})" for file in files) + ".", ""]
    for file in files:
        lines += [f"## {title[file]}", "", *header(file), ""]
    return squeezed(lines)


def squeezed(lines):
    """Without two blank lines in a row, and none at the end."""
    kept = [line for i, line in enumerate(lines) if line.strip() or (i and lines[i - 1].strip())]
    while kept and not kept[-1].strip():
        kept.pop()
    return kept


# ---- settings ----------------------------------------------------------------------------------------------------------


def settings():
    text = (ROOT / "src/base/settings.cpp").read_text()
    text = text[text.index("table = {"): text.index("return table")]
    rows = re.findall(r'\{"(\w+)",\s*"([^"]*)",\s*((?:"(?:[^"\\]|\\.)*"\s*)+)\}', text)
    lines = ["| setting | default | meaning |", "| --- | --- | --- |"]
    for name, default, meaning in rows:
        words = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', meaning)).replace("|", "\\|")
        lines.append(f"| `{name}` | {f'`{default}`' if default else 'not set'} | {words} |")
    return lines


# ---- rooms -------------------------------------------------------------------------------------------------------------

ROOMS = ("base", "machine", "channel", "plan", "measure", "comm", "tune", "export", "memory", "state", "graph", "capi", "shims",
         "cli")


def rooms():
    """Each folder of src by the first line of its README, its inner rooms, and what it may include."""
    found = {file.parent.name: file.read_text() for file in (ROOT / "src").glob("*/README.md")}
    order = [each for each in ROOMS if each in found] + sorted(set(found) - set(ROOMS))
    lines = ["| folder | holds | may include |", "| --- | --- | --- |"]
    for room in order:
        text = found[room]
        title = re.sub(rf"^# *({room}: *)?", "", text.split("\n")[0])
        allowed = re.search(r"May include: (.*?)\.(?=\s|$)", text, re.DOTALL)
        lines.append(f"| `src/{room}/` | {title} | {' '.join(allowed[1].split()) if allowed else ''} |")
        for inner, what in re.findall(r"^- `(\w+)/`:? +(.*?)(?=^- |^$|\Z)", text, re.MULTILINE | re.DOTALL):
            if (ROOT / "src" / room / inner).is_dir() and room not in ("shims",):
                lines.append(f"| &nbsp; `{inner}/` | {' '.join(what.split()).rstrip('.')} | |")
    return lines


def mpi_functions():
    """The MPI functions that the preload library takes over, by the groups of their registry."""
    text = (ROOT / "src/shims/mpi/registry.hpp").read_text()
    lines = ["| functions | what is taken over |", "| --- | --- |"]
    for what, rows in re.findall(r"^// Documented as: ((?:.|\n// )*)\n#define \w+\([^)]*\)((?:.*\\\n)*.*\n)", text, re.MULTILINE):
        names = re.findall(r"(?:FORM\(X, \w*, |\bX\()(\w+)", rows)
        lines.append(f"| {', '.join(f'`MPI_{name}`' for name in names)} | {' '.join(what.replace('//', ' ').split())} |")
    return lines
