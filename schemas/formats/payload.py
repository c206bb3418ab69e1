"""The first look at a payload: size, emptiness, encoding. What fails here is unreadable as a whole."""

from schemas.formats.decoded import Surroundings, Unreadable

UTF8_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def bounded(data: bytes, surroundings: Surroundings, format_name: str) -> bytes:
    """The payload, unless it is empty or larger than `bytes_maximum`."""
    if not data.strip(b"\0 \t\r\n"):
        raise Unreadable(f"{format_name}: empty payload")
    if len(data) > surroundings.bytes_maximum:
        raise Unreadable(
            f"{format_name}: payload of {len(data)} bytes is over the limit of {surroundings.bytes_maximum}"
        )
    return data


def text(data: bytes, surroundings: Surroundings, format_name: str) -> str:
    """The payload as text. A shell on Windows writes UTF-16 with a mark; bytes that are no UTF-8 become U+FFFD, so
    that one damaged line costs only itself; a NUL means that this is no text at all.
    """
    bounded(data, surroundings, format_name)
    if data.startswith(UTF16_MARKS):
        return data.decode("utf-16", errors="replace")
    at = data.find(b"\0")
    if at >= 0:
        raise Unreadable(f"{format_name}: binary data (a NUL at byte {at}), not text")
    return data.removeprefix(UTF8_MARK).decode("utf-8", errors="replace")


def head_text(head: bytes) -> str:
    """The first bytes of a file as text, for recognising it; empty for binary content."""
    if head.startswith(UTF16_MARKS):
        return head[: len(head) // 2 * 2].decode("utf-16", errors="replace")
    return "" if b"\0" in head else head.removeprefix(UTF8_MARK).decode("utf-8", errors="replace")
