"""Docstrings as the API reference shows them."""

import re
from typing import Any

from griffe import Extension, Object

_SECTION = re.compile(r"^(?=(?:Args|Attributes|Returns|Raises|Examples):$)", re.M)
_BARE = re.compile(r"^(?=>>> )", re.M)


class Examples(Extension):
    """Sets sections apart, and makes one of each docstring's example."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        if obj.docstring is None:
            return
        text = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.M)
        before, *example = _BARE.split(text, maxsplit=1)
        if example:
            lines = example[0].splitlines()
            text = "\n".join([f"{before}Examples:", *(f"    {x}" for x in lines)])
        returned = str(getattr(obj, "returns", None) or "")
        # Otherwise what comes before a colon would be taken for the type.
        text = re.sub(r"^Returns:\n +", rf"\g<0>{returned}: ", text, flags=re.M)
        # Griffe wants the empty lines that our style leaves out.
        obj.docstring.value = _SECTION.sub("\n", text)
