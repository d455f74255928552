"""Regular expressions: what is translated, and what is refused."""

import pyarrow as pa
import pytest

from tocsin.model.terms.coercion import TermError
from tocsin.model.terms.regex import match_regex, translate_regex


@pytest.mark.parametrize(
    ("pattern", "translated"),
    [
        ("abc", "abc"),
        ("a.c", r"a[^\n\r\x{85}\x{2028}\x{2029}]c"),
        ("(?s)a.c", "a(?s:.)c"),
        ("^a", r"\Aa"),
        ("(a|b)+?", "(?:a|b)+?"),
        ("(?<name>a)", "(?:a)"),
        ("(?i)k1", "[kK]1"),
        ("(?i:a)b", "(?:[aA])b"),
        ("(?i)[a-c]", "[a-cA-C]"),
        ("(?i)a(?-i)a", "[aA]a"),
        (r"\s\.", r"[\t\n\x{b}\f\r ]\x{2e}"),
        (r"\Qa.b\E", r"a\x{2e}b"),
        (r"\u00df{2,}", r"(?:\x{df}){2,}"),
    ],
)
def test_translated(pattern: str, translated: str) -> None:
    assert translate_regex(pattern).pattern == translated


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(?=a)", "lookahead"),
        ("(?<=a)b", "lookbehind"),
        ("(?>a)", "atomic"),
        ("a++", "possessive"),
        (r"(a)\1", "backreferences"),
        (r"\k<a>", r"RE2 has no \\k"),
        (r"\bword\b", "depends on the version of Java"),
        (r"\p{L}", "depends on the version of Unicode"),
        (r"\Ra", r"RE2 has no \\R"),
        ("[a-z&&[b]]", "intersections"),
        ("[a[b]]", "a class inside a class"),
        ("[]a]", "is empty"),
        ("[a", "is not closed"),
        ("(a", "is not closed"),
        ("a)", "has no partner"),
        ("*a", "nothing precedes"),
        ("a**", "one repetition follows another"),
        ("a{1001}", "repeats more than 1000 times"),
        ("a{2,1}", "repeats more than"),
        ("a{x}", "does not start a repetition"),
        ("{", "nothing precedes"),
        ("a$b", r"\$ is supported at the end only"),
        ("(a$)*", "is repeated"),
        ("(?:^a){2}", "is repeated"),
        ("^*", "a repetition follows"),
        (r"a\z|b$", "do not go together"),
        ("(?m)^a", "the flag m is not supported"),
        ("(?u)a", "the flag u is not supported"),
        ("(?<a>x)(?<a>y)", "two groups have the name a"),
        ("[z-a]", "is empty"),
        (r"[\d-z]", "a range cannot start"),
        ("a\\", "ends in a backslash"),
        (r"\ud800", "is not a character"),
        ("(" * 60 + ")" * 60, "nested too deeply"),
        ("((a{1000}){1000}){1000}", "is not supported"),
    ],
)
def test_refused(pattern: str, problem: str) -> None:
    with pytest.raises(TermError, match=problem):
        translate_regex(pattern)


def test_the_end_may_be_before_a_last_line_terminator() -> None:
    texts = pa.array(["a", "a\n", "a\r\n", "a\u2028", "a\n\n", "a\nb", "", None, "\r\n"])
    expected = [True, True, True, True, False, False, False, None, False]
    assert match_regex(texts, translate_regex("a$")).to_pylist() == expected
    # Not between \r and \n.
    assert match_regex(texts, translate_regex(r"^\r$")).to_pylist()[-1] is False
    assert match_regex(texts, translate_regex(r"a\z")).to_pylist()[1] is False
