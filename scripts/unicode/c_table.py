"""Initializers of C tables, for the other scripts of this folder."""


def table(items, width=100):
    """The items in lines of at most `width` characters."""
    line, out = "   ", []
    for item in items:
        if len(line) + 1 + len(item) > width:
            out.append(line)
            line = "   "
        line += " " + item
    return "\n".join(out + [line])
