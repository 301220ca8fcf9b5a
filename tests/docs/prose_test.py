"""Pages keep to sentences of 30 words and lines of 200 characters: tools/prose.py over all of them, and on small texts."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools"))
import prose  # noqa: E402

LONG = " ".join(["word"] * 31) + "."


class Findings(unittest.TestCase):
    def found(self, text):
        return [(number, what.split(",")[0]) for number, what in prose.findings(prose.pages.Page(prose.ROOT / "x.md", text))]

    def test_a_long_sentence_is_found_at_its_paragraph(self):
        self.assertEqual(self.found(f"# Title\n\nShort one.\n{LONG}\n"), [(3, "a sentence of 31 words")])
        self.assertEqual(self.found(f"- Short.\n- {LONG}\n"), [(2, "a sentence of 31 words")])

    def test_thirty_words_are_not_too_many(self):
        self.assertEqual(self.found(LONG.replace("word ", "", 1)), [])

    def test_a_sentence_may_go_over_lines(self):
        self.assertEqual(self.found(LONG.replace(" ", "\n")), [(1, "a sentence of 31 words")])

    def test_a_full_stop_ends_one(self):
        self.assertEqual(self.found(f"{LONG[:70]}. Then {LONG[70:140]}"), [])
        self.assertEqual(self.found(LONG.replace("word word", "e.g. 1.5", 1)), [(1, "a sentence of 31 words")])

    def test_spans_and_links_count_as_what_they_show(self):
        self.assertEqual(self.found(" ".join(["word"] * 28) + " `a b c d` [one](two.md)."), [])

    def test_tables_headings_and_code_are_left_out(self):
        self.assertEqual(self.found(f"# {LONG}\n\n| {LONG * 9} |\n\n```text\n{LONG * 9}\n```\n\n    {LONG * 9}\n"), [])

    def test_a_long_line_is_found(self):
        self.assertEqual(self.found("x" * 200), [])
        self.assertEqual(self.found("x" * 201), [(1, "a line of 201 characters")])


class Changelog(unittest.TestCase):
    TEXT = "# Changelog\n\n## [Unreleased]\n\n- one\n  two\n- one\n  two\n  three\n\n## [0.0.1]\n\n- a\n  b\n  c\n"

    def test_entries_of_three_lines_are_found_in_the_first_part_alone(self):
        self.assertEqual([number for number, _ in prose.changelog_findings(self.TEXT)], [7])


GUIDE = {"first_quantization", "tune", "which_scheme", "why_slower", "why_less_accurate", "data", "detectors", "devices", "ci", "many_models",
         "from_other_tools", "python", "cluster", "language_models", "text_encoders", "speech"}


class Sizes(unittest.TestCase):
    def check(self, path, most):
        with self.subTest(page=path.name):
            self.assertLessEqual(len(path.read_text(encoding="utf-8").splitlines()), most)

    def test_pages_of_the_guide_have_80_lines(self):
        found = {path.stem: path for path in (prose.ROOT / "docs/guide").glob("*.md")}
        self.assertEqual(set(found), GUIDE)
        for path in found.values():
            self.check(path, 80)

    def test_search_and_accuracy_have_110_lines(self):
        for name in ("search", "accuracy"):
            self.check(prose.ROOT / f"docs/design/{name}.md", 110)


class Pages(unittest.TestCase):
    def test_all_of_them(self):
        pages = prose.checked_pages()
        self.assertGreater(len(pages), 30)
        for page in pages:
            with self.subTest(page=page.name):
                self.assertEqual([f"{number}: {what}" for number, what in prose.findings(page)], [])

    def test_the_changelog(self):
        self.assertEqual(list(prose.changelog_findings((prose.ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))), [])


if __name__ == "__main__":
    unittest.main()
