"""Examples of docstrings, as the API reference shows them."""

import re
from typing import Any

from griffe import Extension, Object

_BARE = re.compile(r"^(?=>>> )", re.M)


class Examples(Extension):
    """Makes an `Examples:` section of each docstring's example."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        if obj.docstring is None:
            return
        text = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.M)
        before, *example = _BARE.split(text, maxsplit=1)
        if example:
            lines = example[0].splitlines()
            text = "\n".join([f"{before}Examples:", *(f"    {x}" for x in lines)])
        obj.docstring.value = text
