"""Patterns of LIKE and RLIKE, and texts to match them with."""

from random import Random

LIKES = [
    *("a%", "%c", "%b%", "%", "", "_", "a_c", "%\\%%", "\\_%", "_%_", "x%", "x_", "%\n", "a\\\\b"),
    *("A%", "%ß%", "İ%", "_日%", "%S", "x\n%", "%_y", "ab%d", "%%a"),
]
REGEXES = [
    *("a", "^a", "b$", "^abc$", "a.c", "x.y", "^.$", "^.*$", "(?s)x.y", "[a-c]+", "[^a-z]", "\\s$"),
    *("(?i)abc", "(?i)k", "(?i)[k-s]top", "(?i)straße", "\\d{2,3}", "\\w+$", "^\\S*$", "(a|b)c?$"),
    *("\\.", "[.]5", "\\Qa_c\\E", "\\u00df", "\\x41", "^\\s", "\\h", "\\v", "(?:x|$)", "", "^$"),
    *(
        "[\\d.]+",
        "[\\S]",
        "a{2}|b*c",
        "(?<p>a)b",
        "[-+]\\d",
        "x\\s",
        "(?i:A)bc",
        "[\\W]",
        "😀",
        "^x$",
    ),
]

_ATOMS = [
    *(
        "a",
        "b",
        "A",
        "k",
        "s",
        "S",
        "1",
        "_",
        "-",
        " ",
        "ß",
        "\u212a",
        "\u017f",
        "😀",
        "\\.",
        "\\\\",
    ),
    *(
        ".",
        "\\d",
        "\\D",
        "\\w",
        "\\W",
        "\\s",
        "\\S",
        "\\h",
        "\\v",
        "[ab]",
        "[^ab]",
        "[a-s]",
        "[^\\s]",
    ),
    *("[\\w-]", "[-a]", "[a-]", "[A-Z\\d]", "[^A-Z]", "[.^$]", "[\\]\\[]", "\\x61", "\\u0062", "]"),
    *(
        "}",
        "&",
        "[a&b]",
        "[!-~]",
        "\\Qa.b\\E",
        "\\t",
        "[\\S]",
        "[\\D]",
        "[\\W]",
        "#",
        "'",
        "\\-",
        "\\/",
    ),
]


def regex(rng: Random, depth: int) -> str:
    """Return a random regular expression in Java's syntax; some of them are not supported."""
    branches = []
    for _ in range(rng.choice([1, 1, 1, 2])):
        parts = []
        for _ in range(rng.choice([0, 1, 1, 2, 3])):
            if depth and rng.random() < 0.3:
                opening = rng.choice(["(", "(?:", "(?i:", "(?s:", "(?<g>", "(?-i:", "(?i)", "(?s)"])
                closing = "" if opening.endswith(")") else regex(rng, depth - 1) + ")"
                atom = opening + closing
                if not closing:
                    parts.append(atom)
                    continue
            else:
                atom = rng.choice(_ATOMS)
            parts.append(
                atom + rng.choice(["", "", "", "*", "+", "?", "{2}", "{1,2}", "*?", "{0,}"])
            )
        start, end = (
            rng.choice(["", "", "", "^", "\\A"]),
            rng.choice(["", "", "", "$", "\\z", "\\Z"]),
        )
        branches.append(start + "".join(parts) + end)
    return "|".join(branches)


def short_text(rng: Random) -> str:
    """Return a random short text of characters that regular expressions may read differently."""
    letters = "abAkKsS1_- .ß\u212a\u017f😀\n\r\u0085\u2028\x0b\t\u00a0\\]&"
    return "".join(rng.choice(letters) for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 4])))
