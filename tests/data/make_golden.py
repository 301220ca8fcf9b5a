"""Writes tests/data/golden with Pillow and numpy, and prints the known answers that the tests hold.

needs: pip install numpy pillow
"""
import hashlib, os, struct, zlib
import numpy as np
from PIL import Image
import PIL

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")


def picture(w, h, channels=3):
    """The picture that picture() of the tests makes."""
    y, x, c = np.meshgrid(np.arange(h), np.arange(w), np.arange(channels), indexing="ij")
    return ((x * 37 + y * 91 + c * 53 + x * y * 7) % 256).astype(np.uint8)


def write_png(path, rows_of_passes, width, height, depth, colour, interlaced):
    """The kinds of PNG that Pillow does not write."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    raw = b"".join(b"\0" + row.tobytes() for rows in rows_of_passes for row in rows if row.size)
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n"
                + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced))
                + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b""))


def digest(image):
    return hashlib.sha256(np.asarray(image.convert("RGB")).tobytes()).hexdigest()[:16]


def images():
    rgb = Image.fromarray(picture(19, 13))
    grey = Image.fromarray(picture(19, 13, 1)[:, :, 0])
    rgba = Image.fromarray(picture(19, 13, 4))
    made = {
        "rgb.png": rgb, "grey.png": grey, "rgba.png": rgba, "grey_alpha.png": rgba.convert("LA"),
        "palette.png": rgb.quantize(16), "bits1.png": grey.convert("1"),
        "rgb.jpg": rgb, "grey.jpg": grey, "cmyk.jpg": rgba.convert("CMYK"), "progressive.jpg": rgb,
    }
    for name, image in made.items():
        options = {"progressive": True} if name == "progressive.jpg" else {}
        image.save(os.path.join(OUT, name), **options)
    clear = rgb.quantize(16)
    clear.info["transparency"] = 3
    clear.save(os.path.join(OUT, "palette_clear.png"), transparency=3)
    wide = (picture(19, 13).astype(np.uint16) * 256 + 200).astype(">u2")
    write_png(os.path.join(OUT, "bits16.png"), [wide], 19, 13, 16, 2, 0)
    write_png(os.path.join(OUT, "grey_bits16.png"), [wide[:, :, 0]], 19, 13, 16, 0, 0)
    adam7 = [(0, 8, 0, 8), (0, 8, 4, 8), (4, 8, 0, 4), (0, 4, 2, 4), (2, 4, 0, 2), (0, 2, 1, 2), (1, 2, 0, 1)]
    passes = [picture(19, 13)[y::dy, x::dx] for y, dy, x, dx in adam7]
    write_png(os.path.join(OUT, "interlaced.png"), passes, 19, 13, 8, 2, 1)
    for name in sorted(os.listdir(OUT)):
        if name.endswith((".png", ".jpg")):
            image = Image.open(os.path.join(OUT, name))
            print(f'    {{"{name}", {image.width}, {image.height}, "{digest(image)}"}},')


def resizes():
    for w, h, tw, th in [(19, 13, 8, 8), (13, 40, 10, 9), (5, 4, 17, 23), (64, 48, 64, 20), (64, 48, 13, 48), (1, 1, 3, 2),
                         (7, 5, 1, 1), (100, 90, 33, 31)]:
        for f in ("nearest", "box", "bilinear", "bicubic", "lanczos"):
            image = Image.fromarray(picture(w, h)).resize((tw, th), getattr(Image, f.upper()))
            print(f'    {{{w}, {h}, {tw}, {th}, Filter::k{f.capitalize()}, "{digest(image)}"}},')


def arrays():
    x = np.arange(24).reshape(2, 3, 4)
    np.savez(os.path.join(OUT, "stored.npz"), x=x.astype(np.float32), y=np.array([3, 1]))
    np.savez_compressed(
        os.path.join(OUT, "types.npz"),
        f2=np.array([0, 1, -2.5, 65504, 6e-8, np.inf], np.float16), f4=np.array(1.5, np.float32), f8=np.array([[0.1]]),
        i1=np.array([-128, 127], np.int8), i2=np.array([-32768], np.int16), i4=np.array([-2**31], np.int32),
        i8=np.array([-2**63, 2**63 - 1]), u1=np.array([255], np.uint8), u2=np.array([65535], np.uint16),
        u4=np.array([2**32 - 1], np.uint32), u8=np.array([2**64 - 1], np.uint64), b1=np.array([True, False]),
        none=np.zeros((0, 3), np.float32), fortran=np.asfortranarray(x.astype(np.int32)))
    np.save(os.path.join(OUT, "plain.npy"), x.astype(np.float64))
    for version in ((2, 0), (3, 0)):
        with open(os.path.join(OUT, f"version{version[0]}.npy"), "wb") as f:
            np.lib.format.write_array(f, x.astype(np.uint8), version=version)
    np.savez(os.path.join(OUT, "odd.npz"), big=np.array([1.0], ">f4"), text=np.array(["a", "b"]),
             records=np.array([(1, 2.0)], dtype=[("a", "<i4"), ("b", "<f4")]))


os.makedirs(OUT, exist_ok=True)
print("// Pillow", PIL.__version__)
images()
resizes()
arrays()
