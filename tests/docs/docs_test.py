#!/usr/bin/env python3
"""The documents, held to what they say: links, places, generated parts, commands, programs and JSON.

    python3 tests/docs/docs_test.py [--bin build/release/bin] [-k PATTERN]

Without --bin, what needs the built command is skipped.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

sys.dont_write_bytecode = True
import pages  # noqa: E402
import schema  # noqa: E402

ROOT = pages.ROOT
HERE = pathlib.Path(__file__).resolve().parent
FOLDERS = ("start", "how-to", "reference", "explanation")
LANGUAGES = {"sh", "console", "text", "c", "cpp", "json", "cmake", "green-marl", "edges", "output"}
BIN = None
unittest.TestCase.maxDiff = None


class Pages(unittest.TestCase):
    def test_links_lead_somewhere(self):
        broken = []
        for page in pages.every_page():
            for line, target in page.links:
                if re.match(r"[a-z]+:", target):
                    continue
                file, _, anchor = target.partition("#")
                goal = (page.path.parent / file).resolve() if file else page.path
                if not goal.exists():
                    broken.append(f"{page.name()}:{line}: {target}: there is no such file")
                elif anchor and (goal.suffix != ".md" or anchor not in pages.read(goal).anchors()):
                    broken.append(f"{page.name()}:{line}: {target}: there is no such heading")
        self.assertEqual("\n".join(broken), "")

    def test_sources_name_pages_that_exist(self):
        broken = []
        for file in pages.tree({".cpp", ".hpp", ".h", ".c", ".py", ".txt", ".cmake", ".sh", ".md", ".toml"}):
            for number, line in enumerate(file.read_text(errors="replace").split("\n"), 1):
                for name in re.findall(r"\bdocs/[\w/-]+\.md\b", line):
                    if not (ROOT / name).exists() and not (ROOT / "tests" / name).exists():
                        broken.append(f"{file.relative_to(ROOT)}:{number}: {name}: there is no such page")
        self.assertEqual("\n".join(broken), "")

    def test_pages_name_files_that_exist(self):
        wrong = []
        for page in [*pages.documents(), pages.read(ROOT / "README.md"), pages.read(ROOT / "CONTRIBUTING.md")]:
            for number, line in enumerate(page.path.read_text().split("\n"), 1):
                for name in re.findall(r"`((?:src|include|tests|bench|python|examples|cmake)/[\w./*-]+)`", line):
                    stands_for_any = re.search(r"\b[A-Z]{4,}", name)  # MACHINE, PAGE
                    if not stands_for_any and not list(ROOT.glob(name)):
                        wrong.append(f"{page.name()}:{number}: {name}: there is no such file")
        self.assertEqual("\n".join(wrong), "")

    def test_scripts_that_pages_call_can_be_executed(self):
        wrong, seen = [], 0
        for page in [*pages.documents(), pages.read(ROOT / "README.md"), pages.read(ROOT / "CONTRIBUTING.md")]:
            for fence in page.fences:
                for name in re.findall(r"^(?:\./)?((?:bench|tests|python|docs)/[\w/.-]+|x)(?= |$)", fence.text(), re.MULTILINE):
                    seen += fence.language == "sh"
                    if fence.language == "sh" and not os.access(ROOT / name, os.X_OK):
                        wrong.append(f"{page.name()}:{fence.line}: {name} is not executable")
        self.assertGreater(seen, 10)
        self.assertEqual("\n".join(wrong), "")

    def test_pages_name_functions_that_exist(self):
        sources = "\n".join(file.read_text() for top in ("src", "include", "tests", "bench")
                            for file in pages.tree({".cpp", ".hpp", ".h", ".c"}, top))
        words = set(re.findall(r"\w+", sources))
        wrong = []
        for page in [*pages.documents(), pages.read(ROOT / "CONTRIBUTING.md")]:
            for number, line in enumerate(page.path.read_text().split("\n"), 1):
                for name in re.findall(r"`([A-Z]\w+::~?\w+)(?:\(\))?`", line):
                    if not words.issuperset(re.findall(r"\w+", name)):
                        wrong.append(f"{page.name()}:{number}: {name}: there is no such function")
        self.assertEqual("\n".join(wrong), "")

    def test_memory_ordering_names_every_order(self):
        page = (ROOT / "docs/explanation/memory-ordering.md").read_text()
        orders = {order.upper() for top in ("src", "include") for file in pages.tree({".hpp"}, top)
                  for order in re.findall(r"^SMELT_ORDER\((\w+)", file.read_text(), re.MULTILINE)}
        self.assertGreater(len(orders), 30)
        self.assertEqual(sorted(order for order in orders if f"`{order}`" not in page), [])

    def test_pages_are_in_the_four_folders(self):
        strays = [page.name() for page in pages.documents()
                  if page.name() != "docs/README.md" and page.path.relative_to(ROOT / "docs").parts[0] not in FOLDERS]
        self.assertEqual("\n".join(strays), "")

    def test_the_index_names_every_page(self):
        index = pages.read(ROOT / "docs/README.md")
        linked = {(index.path.parent / target.partition("#")[0]).resolve() for _, target in index.links}
        missing = [page.name() for page in pages.documents() if page.path != index.path and page.path not in linked
                   and page.path.parent.name != "decisions"]
        self.assertEqual("\n".join(missing), "")
        decisions = pages.read(ROOT / "docs/explanation/decisions/README.md")
        listed = {target for _, target in decisions.links}
        self.assertEqual([file.name for file in decisions.path.parent.glob("0*.md") if file.name not in listed], [])

    def test_the_readme_names_what_the_build_needs(self):
        others = {"nlohmann_json": "nlohmann-json", "PkgConfig": "pkg-config", "GTest": "GoogleTest", "ZSTD_INCLUDE_DIR": "zstd"}
        files = [ROOT / "CMakeLists.txt", *(ROOT / "src").rglob("CMakeLists.txt")]
        needed = {others.get(name, name) for file in files
                  for name in re.findall(r"(?:find_package|find_path|pkg_check_modules)\((\w+)[^)]*\bREQUIRED\b", file.read_text())}
        self.assertLessEqual({"fmt", "zstd", "pkg-config"}, needed)
        for name in ("README.md", "x"):
            text = (ROOT / name).read_text().lower()
            self.assertEqual([each for each in sorted(needed - {"Threads"}) if each.lower() not in text], [], name)

    def test_messages_in_pages_are_those_of_the_sources(self):
        literals = re.compile(r'"((?:[^"\\\n]|\\.)*)"(?:\s*"((?:[^"\\\n]|\\.)*)")*')
        texts = "\n".join(re.sub(r'"\s*\n?\s*"', "", each[0]) for file in pages.tree({".cpp", ".hpp"}, "src")
                          for each in literals.finditer(file.read_text()))
        texts = re.sub(r"\{[^}]*\}", "", texts) + "Operation not permitted; an update returns"
        wrong, seen = [], 0
        for page in pages.documents():
            table = re.search(r"^\| message \| what to do \|\n\| --- .*\n((?:\|.*\n)+)", page.path.read_text(), re.MULTILINE)
            for message in re.findall(r"^\| (.*?) \|", table[1], re.MULTILINE) if table else []:
                parts = [part.strip(" `") for part in re.split(r"\d+(?: GiB)?|…|\.\.\.|'|`", message)]
                seen += 1
                wrong += [f"{page.name()}: {message}: '{part}'" for part in parts if " " in part and part not in texts]
        self.assertGreater(seen, 8)
        self.assertEqual("\n".join(wrong), "")

    def test_short_pages_are_short(self):
        self.assertLess(len((ROOT / "README.md").read_text().split("\n")), 150)
        self.assertLessEqual(len((ROOT / "bench/results/README.md").read_bytes()), 8 * 1024)

    def test_blocks_say_what_they_are(self):
        wrong = []
        for page in [*pages.documents(), pages.read(ROOT / "README.md"), pages.read(ROOT / "CONTRIBUTING.md")]:
            wrong += [f"{page.name()}:{line}: an indented block; fence it" for line in page.indented]
            for fence in page.fences:
                if fence.language not in LANGUAGES:
                    wrong.append(f"{page.name()}:{fence.line}: language '{fence.language}'")
                if fence.language in ("text", "output") and re.search(r"^(\$ |\./x )", fence.text(), re.MULTILINE):
                    wrong.append(f"{page.name()}:{fence.line}: commands belong into sh or console blocks")
        self.assertEqual("\n".join(wrong), "")

    def test_the_page_reader_finds_what_it_is_for(self):
        with tempfile.TemporaryDirectory() as place:
            file = pathlib.Path(place) / "a.md"
            file.write_text("# A b, `c`\n\n# A b, `c`\n\n- x\n\n      y\n\n[l](m#n) `[k](j)`\n\n    indented\n\n<!-- not run: why -->\n"
                            "```sh\nls\n```\n")
            page = pages.read(file)
            self.assertEqual(page.anchors(), {"a-b-c", "a-b-c-1"})
            self.assertEqual(page.links, [(9, "m#n")])
            self.assertEqual(page.indented, [11])
            self.assertEqual([(each.language, each.lines, each.notes) for each in page.fences], [("sh", ["ls"], {"not run": "why"})])


class Generated(unittest.TestCase):
    def test_nothing_is_stale(self):
        check = subprocess.run([sys.executable, ROOT / "docs/generate.py", "--check"], capture_output=True, text=True)
        self.assertEqual((check.returncode, check.stdout, check.stderr), (0, "", ""))

    def test_the_check_finds_what_is_stale(self):
        sys.path.insert(0, str(ROOT / "docs"))
        import generate
        self.assertTrue(generate.PART.search("<!-- generated: settings -->\nold\n<!-- end of generated -->"))
        with tempfile.TemporaryDirectory() as place:
            page = pathlib.Path(place) / "a.md"
            page.write_text("a\n<!-- generated: settings -->\nold\n<!-- end of generated -->\nb\n")
            text = generate.written(page)
            self.assertIn("| `SMELT_WAIT` | `auto` |", text)
            self.assertTrue(text.startswith("a\n") and text.endswith("-->\nb\n"))

    def test_every_public_function_of_c_has_an_entry(self):
        header = re.sub(r"/\*.*?\*/", "", (ROOT / "include/smelt/smelt.h").read_text(), flags=re.DOTALL)
        functions = set(re.findall(r"^[\w ]+\*? ?\**(smelt_\w+)\(", header, re.MULTILINE))
        self.assertGreater(len(functions), 80)
        page = (ROOT / "docs/reference/c-api.md").read_text()
        self.assertEqual([each for each in sorted(functions) if not re.search(rf"\b{each}\(", page)], [])


def words_of(text):
    """The words of a program, whatever the lines and the indentation."""
    return " ".join(["", *text.split(), ""])


class Code(unittest.TestCase):
    """Every block of C and C++ consists of excerpts of one program that is compiled and run, apart by blank lines or `...`."""

    def test_blocks_are_excerpts_of_programs(self):
        files = [*pages.tree({".c", ".cpp"}, "examples"), *pages.tree({".c", ".cpp"}, "tests/docs"),
                 *pages.tree({".cpp"}, "src/plan/algorithms")]
        programs = [words_of(file.read_text()) for file in files]
        wrong = []
        for page in [*pages.documents(), pages.read(ROOT / "README.md")]:
            for fence in page.fences:
                if fence.language not in ("c", "cpp") or fence.generated:
                    continue
                parts = [words_of(part) for part in re.split(r"^ *(?:\.\.\.)?$", fence.text(), flags=re.MULTILINE)]
                if not any(all(part in text for part in parts) for text in programs):
                    wrong.append(f"{page.name()}:{fence.line}: in no program of examples/ or tests/docs/")
        self.assertEqual("\n".join(wrong), "")


class Json(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.schemas = {file.stem: json.loads(file.read_text()) for file in (ROOT / "docs/reference/schemas").glob("*.json")}

    def problems(self, value, name):
        return schema.problems(value, self.schemas[name])

    def name_for(self, value):
        tag = value.get("schema", "") if isinstance(value, dict) else ""
        return tag.split("/")[0].removeprefix("smelt-")

    def test_examples_keep_to_the_schemas(self):
        wrong, seen = [], 0
        for page in [*pages.documents(), pages.read(ROOT / "README.md")]:
            for fence in page.fences:
                if fence.language != "json":
                    continue
                value = json.loads(fence.text())
                name = fence.notes.get("schema") or self.name_for(value)
                where = f"{page.name()}:{fence.line}"
                if name not in self.schemas:
                    wrong.append(f"{where}: no schema '{name}'")
                    continue
                seen += 1
                wrong += [f"{where}: {each}" for each in self.problems(value, name)]
        self.assertEqual("\n".join(wrong), "")
        self.assertGreater(seen, 1)

    def test_results_keep_to_the_schemas(self):
        wrong = []
        for file in sorted((ROOT / "bench/results").glob("*/*.json")):
            value = json.loads(file.read_text())
            name = self.name_for(value)
            if name:
                wrong += [f"{file.parent.name}/{file.name}: {each}" for each in self.problems(value, name)]
        self.assertEqual("\n".join(wrong), "")

    def test_the_validator_finds_what_is_wrong(self):
        rule = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer", "minimum": 1}},
                "additionalProperties": False}
        self.assertEqual(schema.problems({"a": 1}, rule), [])
        for value in ({}, {"a": 0}, {"a": 1.5}, {"a": True}, {"a": 1, "b": 2}, []):
            self.assertEqual(len(schema.problems(value, rule)), 1, value)
        with self.assertRaises(ValueError):
            schema.problems({}, {"oneOf": []})


@unittest.skipUnless("--bin" in sys.argv, "needs the built command")
class Commands(unittest.TestCase):
    """What pages show in sh and console blocks is run: a page's blocks in order, in an empty directory of the page's own."""

    @classmethod
    def setUpClass(cls):
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="smelt-docs-"))
        cls.addClassCleanup(shutil.rmtree, cls.place, True)
        cls.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("SMELT_")},
            "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(cls.place), "XDG_CACHE_HOME": str(cls.place / "cache"),
            "LD_LIBRARY_PATH": str(BIN.parent / "lib"), "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1",
            "PKG_CONFIG_PATH": str(cls.place), "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
            "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
        }
        # As an installation has it, for what is built here.
        (cls.place / "smelt.pc").write_text(f"Name: smelt\nDescription: -\nVersion: 0\nCflags: -I{ROOT}/include\n"
                                            f"Libs: -L{BIN.parent}/lib -lsmelt\n")
        cls.smelt("measure", "--quick", "--budget", "3s")

    @classmethod
    def smelt(cls, *words, **options):
        run = subprocess.run([BIN / "smelt", *words], env=cls.environment, cwd=cls.place, capture_output=True, text=True,
                             timeout=200, **options)
        if run.returncode != 0:
            raise AssertionError(f"smelt {' '.join(words)}: status {run.returncode}\n{run.stderr}")
        return run.stdout

    @staticmethod
    def commands_of(fence):
        """The script of a block; of a console block what follows the prompts."""
        if fence.language == "sh":
            return fence.text()
        kept, goes_on = [], False
        for line in fence.lines:
            if goes_on or line.startswith("$ "):
                kept.append(line.removeprefix("$ "))
                goes_on = line.endswith("\\")
        return "\n".join(kept)

    @staticmethod
    def is_there(name):
        """A program, or a library of smelt that is built where others are installed."""
        return (BIN.parent / "lib" / name).exists() if name.endswith(".so") else shutil.which(name) is not None

    def script_of(self, page):
        script = ["set -eu"]
        for fence in page.fences:
            if fence.language not in ("sh", "console") or "not run" in fence.notes:
                continue
            if not all(self.is_there(tool) for tool in fence.notes.get("needs", "").split()):
                continue
            commands = self.commands_of(fence)
            if fence.notes.get("run in") == "the repository":
                commands = f"( cd '{ROOT}'\n{commands}\n)"
            script += [f"echo '+ {page.name()}:{fence.line}' >&2", commands]
        return "\n".join(script) + "\n" if len(script) > 1 else ""

    def run_page(self, page):
        script = self.script_of(page)
        if not script:
            return ""
        name = page.name().removesuffix(".md").replace("/", "-")
        place = self.place / name
        fixtures = HERE / "fixtures" / name
        if fixtures.is_dir():
            shutil.copytree(fixtures, place)
        else:
            place.mkdir()
        try:
            run = subprocess.run(["bash", "-c", script], env=self.environment, cwd=place, stdin=subprocess.DEVNULL,
                                 capture_output=True, text=True, timeout=200)
        except subprocess.TimeoutExpired as late:
            return f"{page.name()}: takes longer than {late.timeout} s\n{late.stderr}"
        return f"{page.name()}: status {run.returncode}\n{run.stdout[-2000:]}\n{run.stderr[-3000:]}" if run.returncode else ""

    @staticmethod
    def shown():
        return [*pages.documents(), pages.read(ROOT / "README.md"), pages.read(ROOT / "CONTRIBUTING.md"),
                pages.read(ROOT / "bench/results/README.md")]

    def test_commands_of_every_page(self):
        with ThreadPoolExecutor(2) as pool:
            failed = [each for each in pool.map(self.run_page, self.shown()) if each]
        self.assertEqual("\n".join(failed), "")

    @classmethod
    def commands(cls):
        listed = cls.smelt("--help").split("\nCommands:\n")[1].split("\n\n")[0]
        return re.findall(r"^  (\w+) {2,}", listed, re.MULTILINE)

    def test_blocks_that_are_not_run_are_right_as_far_as_can_be_seen(self):
        wrong, helps = [], {}
        for page in self.shown():
            for fence in page.fences:
                if fence.language not in ("sh", "console"):
                    continue
                where, script = f"{page.name()}:{fence.line}", self.commands_of(fence)
                checked = subprocess.run(["bash", "-n", "-c", script], capture_output=True, text=True)
                if checked.returncode != 0:
                    wrong.append(f"{where}: {checked.stderr}")
                for words in re.findall(r"(?:^|[;&|(] *|\w=\w+ )smelt ((?:graph )?[a-z][^\n;&|)#]*)", script, re.MULTILINE):
                    command = re.match(r"(?:graph )?\w+", words)[0]
                    if command.split()[0] not in self.commands():
                        wrong.append(f"{where}: smelt {command}: there is no such command")
                        continue
                    if command not in helps:
                        helps[command] = self.smelt(*command.split(), "--help")
                    own = words.split(" mpirun")[0].split(" ./")[0]
                    for option in re.findall(r" (--[a-z][\w-]*)", own):
                        if option not in helps[command]:
                            wrong.append(f"{where}: smelt {command} has no {option}")
        self.assertEqual("\n".join(wrong), "")

    def test_every_command_has_a_section(self):
        page = pages.read(ROOT / "docs/reference/command.md")
        listed = self.commands()
        self.assertGreater(len(listed), 10)
        self.assertEqual([each for each in listed if each not in page.headings], [])

    def test_every_option_is_described(self):
        page = (ROOT / "docs/reference/command.md").read_text()
        # What holds everywhere is said once, before the sections.
        sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
        missing = []
        for command in self.commands():
            text, helps = sections.get(command, ""), self.smelt(command, "--help")
            if "\nCommands:\n" in helps:
                inner = re.findall(r"^  (\w+) {2,}", helps.split("\nCommands:\n")[1].split("\n\n")[0], re.MULTILINE)
                helps += "".join(self.smelt(command, each, "--help") for each in inner)
            for short, option in re.findall(r"^  (?:(-\w), )?(--[a-z][\w-]*)", helps, re.MULTILINE):
                if option not in text and not (short and f"{short} " in text) and option not in ("--help", "--json", "--model"):
                    missing.append(f"{command} {option}")
        self.assertEqual(sorted(set(missing)), [])

    def test_the_table_of_settings_is_the_command_s(self):
        page = (ROOT / "docs/reference/settings.md").read_text()
        told = [each["name"] for each in json.loads(self.smelt("settings", "--json"))["settings"]]
        self.assertEqual(re.findall(r"^\| `(SMELT_\w+)`", page, re.MULTILINE), told)

    def test_documents_keep_to_the_schemas(self):
        schemas = {file.stem: json.loads(file.read_text()) for file in (ROOT / "docs/reference/schemas").glob("*.json")}
        made = self.place / "made.json"
        self.smelt("synth", "--packages", "2", "--cores", "4", "-o", str(made))
        plan = self.place / "plan.json"
        plan.write_text(self.smelt("plan", "-m", str(made), "--steps", "--json"))
        told = {
            "machine": [made.read_text(), self.smelt("show", "--json")],
            "plan": [plan.read_text(), self.smelt("plan", "-m", str(made), "--op", "barrier", "--json")],
            "simulate": [self.smelt("simulate", "-m", str(made), "--plan", str(plan), "--json")],
            "compare": [self.smelt("compare", "-m", str(made), "--json")],
            "explain": [self.smelt("explain", "allreduce", "--bytes", "4096", "-m", str(made), "--json")],
            "inspect": [self.smelt("inspect", "--json")],
        }
        wrong = [f"{name}: {each}" for name, texts in told.items() for text in texts
                 for each in schema.problems(json.loads(text), schemas[name])]
        self.assertEqual("\n".join(wrong), "")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--bin", type=pathlib.Path)
    known, rest = parser.parse_known_args()
    BIN = known.bin.resolve() if known.bin else None
    unittest.main(argv=[sys.argv[0], *rest])
