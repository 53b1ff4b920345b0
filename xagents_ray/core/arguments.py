"""Arguments of commands, which files, scripts and terminals must be able to take."""

import re
from collections.abc import Iterable

from xagents_ray.core.errors import UserError

_UNDECODED = re.compile(r"[\ud800-\udfff]")
"""What Python makes of bytes that are not UTF-8."""
_CONTROL = re.compile(
    r"[^\t\n -~\xa0-\u2027\u202a-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
"""Characters that YAML can't hold as they are, or that control a terminal."""


def check_characters(arguments: Iterable[str]) -> None:
    """Raise UserError if an argument is not UTF-8, or has a control character."""
    for each in arguments:
        if _UNDECODED.search(each):
            raise UserError(
                f"The argument {each!a} is not UTF-8: rename what it names, or write "
                "it in UTF-8."
            )
        if found := _CONTROL.search(each):
            raise UserError(
                f"The argument {each!a} has the control character "
                f"U+{ord(found[0]):04X}: leave that out."
            )
