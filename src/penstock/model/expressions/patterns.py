"""LIKE and RLIKE with constant patterns, brought to one regular expression that Java, Python and Rust read alike.

>>> like_regex("a_%", "\\\\")
'a(?s:.)(?s:.*)'
>>> java_regex("^v[0-9]+.$")
'^v[0-9]+[^\\\\n\\\\r\\\\x{85}\\\\x{2028}\\\\x{2029}](?:\\\\r\\\\n|[\\\\n\\\\r\\\\x{85}\\\\x{2028}\\\\x{2029}])?\\\\z'
"""

from __future__ import annotations

import re

from penstock.model.expressions.coerce import Outside, cast
from penstock.model.expressions.tree import Call, Literal, Node

_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"
#: Java's classes are ASCII; in Python and Rust they would be Unicode.
_CLASSES = {"d": "0-9", "w": "a-zA-Z0-9_", "s": r" \t\n\x0b\x0c\r"}
_PUNCTUATION = frozenset("\\.^$|?*+()[]{}-/\"'#&~@!%,:;<>=_` ")
_QUANTIFIER = re.compile(r"(?:[*+?]|\{(\d{1,3})(?:,(\d{0,3}))?\})\??")
_META = "\\.+*?()|[]{}^$#&-~"


def like(value: Node, pattern: Node, escape: str, *, fold: bool) -> Node:
    """LIKE; ILIKE compares the lower case of both."""
    value, pattern = cast(value, "string"), cast(pattern, "string")
    if fold:
        value = Call("lower", (value,), "string")
    if not isinstance(pattern, Literal) or pattern.value is None:
        raise Outside("LIKE with a pattern that is not a constant is outside the kernel")
    text = str(pattern.value)
    if fold:
        if not text.isascii():
            raise Outside("ILIKE with letters outside ASCII is outside the kernel")
        text = text.lower()
    regex = rf"^{like_regex(text, escape)}\z"
    inner = text.removeprefix("%").removesuffix("%")
    if escape not in text and "%" not in inner and "_" not in inner:
        shape = (text.startswith("%"), text.endswith("%") and text != "%")
        name = {(False, False): "eq", (False, True): "startswith", (True, False): "endswith"}.get(shape, "contains")
        return Call(name, (value, Literal(inner, "string")), "boolean")
    return Call("matches", (value, Literal(regex, "string")), "boolean")


def rlike(value: Node, pattern: Node) -> Node:
    """RLIKE with a constant whose syntax means the same everywhere."""
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        raise Outside("RLIKE with a pattern that is not a constant is outside the kernel")
    return Call("matches", (cast(value, "string"), Literal(java_regex(pattern.value), "string")), "boolean")


def like_regex(pattern: str, escape: str) -> str:
    """The regular expression of a LIKE pattern."""
    if len(escape) != 1:
        raise Outside("ESCAPE is outside the kernel")
    out, at = [], 0
    while at < len(pattern):
        char = pattern[at]
        if char == escape:
            at += 1
            if at == len(pattern) or pattern[at] not in ("_", "%", escape):
                raise Outside(f"the pattern '{pattern}' has an escape before no wildcard, and is outside the kernel")
            out.append(_quote(pattern[at]))
        else:
            out.append({"_": "(?s:.)", "%": "(?s:.*)"}.get(char) or _quote(char))
        at += 1
    return "".join(out)


def java_regex(pattern: str) -> str:
    """The pattern in the common words of Java, Python and Rust; Outside where they part."""
    out: list[str] = []
    at, depth, can_repeat = 0, 0, False
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if (quantifier := _QUANTIFIER.match(pattern, at - 1)) and can_repeat:
            if pattern[quantifier.end() : quantifier.end() + 1] == "+":
                raise _unequal(pattern)
            out.append(quantifier[0])
            at, can_repeat = quantifier.end(), False
            continue
        can_repeat = True
        match char:
            case ".":
                out.append(f"[^{_ENDS}]")
            case "^" if at == 1:
                out.append("^")
                can_repeat = False
            case "$" if at == len(pattern) and depth == 0 and "|" not in pattern:
                out.append(rf"(?:\r\n|[{_ENDS}])?\z")
            case "|":
                out.append("|")
                can_repeat = False
            case "(":
                if pattern.startswith("?", at) and not pattern.startswith("?:", at):
                    raise _unequal(pattern)
                at += 2 * pattern.startswith("?:", at)
                out.append("(?:")
                depth, can_repeat = depth + 1, False
            case ")" if depth > 0:
                out.append(")")
                depth -= 1
            case "[":
                chars, at = _char_class(pattern, at)
                out.append(chars)
            case "\\":
                out.append(_escaped(pattern, at))
                at += 1
            case _ if char in _META or (not char.isprintable() and char not in "\t\n"):
                raise _unequal(pattern)
            case _:
                out.append(_quote(char))
    if depth:
        raise _unequal(pattern)
    return "".join(out)


def may_match_nothing(regex: str) -> bool:
    """Whether a regular expression that `java_regex` gave can match an empty text, or a place between characters.

    >>> may_match_nothing(java_regex(" *")), may_match_nothing(java_regex("[^a-z]+"))
    (True, False)
    """
    return regex.startswith("^") or regex.endswith(r"\z") or re.match(python_regex(regex), "") is not None


def python_regex(regex: str) -> str:
    """The common regular expression, in Python's spelling."""
    spelled = regex.replace(r"\z", r"\Z").replace(r"\x{85}", r"\x85")
    return re.sub(r"\\x\{(20\d\d)\}", r"\\u\1", spelled)


def _escaped(pattern: str, at: int) -> str:
    char = pattern[at : at + 1]
    if char and char in _PUNCTUATION:
        return _quote(char)
    if char in ("t", "n", "r"):
        return "\\" + char
    if char.lower() in _CLASSES and char:
        return f"[{'^' if char.isupper() else ''}{_CLASSES[char.lower()]}]"
    raise _unequal(pattern)


def _char_class(pattern: str, at: int) -> tuple[str, int]:
    """The inside of [ ]: letters, digits, a few signs, ranges of ASCII, and \\d \\w \\s."""
    out = "["
    if pattern.startswith("^", at):
        out, at = "[^", at + 1
    start = at
    while at < len(pattern) and pattern[at] != "]":
        char = pattern[at]
        if char == "\\":
            inner = pattern[at + 1 : at + 2]
            if inner in _CLASSES:
                out += _CLASSES[inner]
            elif inner and inner in _PUNCTUATION:
                out += _quote(inner)
            else:
                raise _unequal(pattern)
            at += 2
            continue
        ranged = re.match(r"([a-z]-[a-z]|[A-Z]-[A-Z]|[0-9]-[0-9])", pattern[at:])
        if ranged and ranged[0][0] <= ranged[0][2]:
            out, at = out + ranged[0], at + 3
        elif (
            (char.isalnum() and char.isascii())
            or char in "_.,:;/@#%=!<>'\" +*?$()|{}"
            or (char == "-" and (at == start or pattern[at + 1 : at + 2] == "]"))
        ):
            out, at = out + _quote(char), at + 1
        else:
            raise _unequal(pattern)
    if at >= len(pattern) or at == start:
        raise _unequal(pattern)
    return out + "]", at + 1


def _quote(char: str) -> str:
    return "\\" + char if char in _META else char


def _unequal(pattern: str) -> Outside:
    return Outside(f"the regular expression '{pattern}' is outside the kernel")
