"""Texts in which some letters are written from right to left, as keys may have them."""

import re

from markupsafe import Markup, escape

# Letters that are written from right to left, with what lies between two of them.
_RIGHT_TO_LEFT = re.compile(
    "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff](?:[^\n]*[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff])?"
)


def isolate(text: str) -> Markup:
    """The text, escaped, in such a way that right-to-left text does not move the numbers and brackets beside
    it.
    """
    if not _RIGHT_TO_LEFT.search(text):
        return escape(text)
    pieces, end = [], 0
    for match in _RIGHT_TO_LEFT.finditer(text):
        pieces += [escape(text[end : match.start()]), Markup("<bdi>{}</bdi>").format(match[0])]
        end = match.end()
    return Markup("").join([*pieces, escape(text[end:])])
