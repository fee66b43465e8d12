"""PDF files made in plain Python (ISO 32000-1): pages of text and rectangles, and hostile ones."""

import hashlib
import zlib


def pdf_file(objects, root=1, trailer=b"", header=b"%PDF-1.4\n"):
    """A file of these objects (bytes each, numbered from 1) with a right cross-reference table."""
    out, places = header, []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n" % number + body + b"\nendobj\n"
    table = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + b"".join(b"%010d 00000 n \n" % place for place in places)
    return out + b"trailer\n<</Size %d/Root %d 0 R%s>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, root, trailer, table)


def stream(data, extra=b""):
    return b"<</Length %d%s>>\nstream\n" % (len(data), extra) + data + b"\nendstream"


def flate(data):
    return stream(zlib.compress(data, 9), b"/Filter/FlateDecode")


def page_text(lines):
    shown = b"".join(b"(%s) Tj 0 -20 Td " % line.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)").encode("latin-1")
                     for line in lines)
    return b"BT /F1 14 Tf 30 260 Td " + shown + b"ET"


def pdf_of(pages, box=b"0 0 400 300", wrap=stream):
    """A file with these contents of pages (bytes, of content operators)."""
    kids = b" ".join(b"%d 0 R" % (4 + 2 * i) for i in range(len(pages)))
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[%s]/Count %d>>" % (kids, len(pages)),
               b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]
    for i, content in enumerate(pages):
        objects += [b"<</Type/Page/Parent 2 0 R/MediaBox[%s]/Contents %d 0 R/Resources<</Font<</F1 3 0 R>>>>>>" % (box, 5 + 2 * i),
                    wrap(content)]
    return pdf_file(objects)


def pdf_of_texts(pages, **how):
    return pdf_of([page_text(lines) for lines in pages], **how)


# --- hostile ------------------------------------------------------------------------------------------------------------


def looping_pages():
    """A tree of pages whose node is its own child, and has itself as parent."""
    return pdf_file([b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[2 0 R 2 0 R]/Count 2/Parent 2 0 R>>"])


def looping_form():
    """A form that draws itself."""
    form = stream(b"/X Do", b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</X 5 0 R>>>>")
    return pdf_file([b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
                     b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R/Resources<</XObject<</X 5 0 R>>>>>>",
                     stream(b"/X Do"), form])


def many_forms(depth=12, times=10):
    """A page whose forms each draw the next one many times: times to the power of depth texts."""
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
               b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R/Resources<</XObject<</X 6 0 R>>>>>>", stream(b"/X Do"),
               b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]
    for level in range(depth):
        last = level == depth - 1
        inside = b"BT /F1 9 Tf (x) Tj ET" if last else b"/X Do " * times
        uses = b"/Font<</F1 5 0 R>>" if last else b"/XObject<</X %d 0 R>>" % (7 + level)
        objects.append(stream(inside, b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<<%s>>" % uses))
    return pdf_file(objects)


def inflating(megabytes, pages=200):
    """Pages whose compressed contents have so many megabytes of text."""
    line = b"word " * 20
    lines = megabytes * 2**20 // len(line) // pages
    return pdf_of([b"BT /F1 1 Tf 9 290 Td " + b"(%s) Tj 0 -1 Td " % line * lines + b"ET"] * pages, wrap=flate)


def huge_image():
    """A page with an image of 60,000 x 60,000 pixels, of one byte each when unpacked."""
    pixels = zlib.compressobj(9)
    data = b"".join(pixels.compress(bytes(2**20)) for _ in range(64)) + pixels.flush()
    return pdf_file([b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
                     b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R/Resources<</XObject<</X 5 0 R>>>>>>",
                     stream(b"q 99 0 0 99 0 0 cm /X Do Q"),
                     stream(data, b"/Type/XObject/Subtype/Image/Width 60000/Height 60000/BitsPerComponent 8/ColorSpace/DeviceGray"
                            b"/Filter/FlateDecode")])


def rc4(key, data):
    state, j, out = list(range(256)), 0, bytearray()
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    i = j = 0
    for byte in data:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        out.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(out)


PADDING = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")


def encrypted(lines, password):
    """Encrypted with 40 bits (security handler of revision 2): without the password nothing can be read."""
    padded = (password + PADDING)[:32]
    owner = rc4(hashlib.md5(padded).digest()[:5], padded)
    name = b"0123456789abcdef"
    key = hashlib.md5(padded + owner + b"\xfc\xff\xff\xff" + name).digest()[:5]

    def sealed(number, data):
        return rc4(hashlib.md5(key + number.to_bytes(3, "little") + b"\0\0").digest()[:10], data)

    user = rc4(key, PADDING)
    return pdf_file([b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
                     b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 400 300]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
                     stream(sealed(4, page_text(lines))), b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
                     b"<</Filter/Standard/V 1/R 2/O<%s>/U<%s>/P -4>>" % (owner.hex().encode(), user.hex().encode())],
                    trailer=b"/Encrypt 6 0 R/ID[<%s><%s>]" % (name.hex().encode(), name.hex().encode()))
