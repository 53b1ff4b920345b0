"""Counts in messages, with the singular or the plural of a word."""


def counted(count: int, singular: str, plural: str = "") -> str:
    """Return `1 env actor` or `1,200 env actors`.

    Args:
        count: of the things.
        singular: the word for one.
        plural: for any other number; the singular with an s by default.
    """
    word = singular if count == 1 else plural or f"{singular}s"
    return f"{count:,} {word}"
