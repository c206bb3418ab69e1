"""What people say to the operations store: who says it, of what, and in how many words. It is shown on screens and in
pages.
"""

NAME_MAXIMUM, SAID_MAXIMUM = 200, 2_000  # characters
PLACE_MAXIMUM = 256  # as telemetry may name one (schemas.columns.name)


def person(name: str) -> str:
    """A name one can ask afterwards. Raises ValueError when it is empty, or too long for a name."""
    plain = name.strip()
    if not plain:
        raise ValueError("say who: this needs a person's name")
    if len(plain) > NAME_MAXIMUM:
        raise ValueError(f"a name of {len(plain):,} characters: at most {NAME_MAXIMUM:,}")
    if not plain.isprintable():  # what nobody sees would also make two people of one
        raise ValueError(f"{plain!r} is no name: it has letters that cannot be seen")
    return plain


def place(name: str) -> str:
    """What is held or silenced, as it was given. Raises ValueError when nothing can have so long a name."""
    if len(name) > PLACE_MAXIMUM:
        raise ValueError(f"a name of {len(name):,} characters: at most {PLACE_MAXIMUM:,}")
    return name


def words(text: str) -> str:
    """A comment as it was given. Raises ValueError when it is too long to be read where it is shown."""
    if len(text) > SAID_MAXIMUM:
        raise ValueError(f"a comment of {len(text):,} characters: at most {SAID_MAXIMUM:,}; say where more is found")
    return text
