#!/usr/bin/env python3
"""Makes the reference data of the tests of pictures: what Pillow, torchvision and timm make of the same files.

Usage: make_golden.py [FOLDER]

Writes small pictures of every kind to data/ beside this file, and to golden.json the SHA-256 of what the libraries
compute from them and from the pictures in FOLDER (the ImageNet sample, if given; its entries are kept otherwise). Made with
  pip install pillow==12.0.0 numpy==2.3.5 torch==2.9.1 torchvision==0.24.1 timm==1.0.22
Pillow up to 12.3 gives these sums. From 13.0 on it resizes a crop that is taller than wide vertically first, which rounds
otherwise.
"""

import hashlib
import io
import json
import pathlib
import struct
import sys
import warnings
import zlib

import numpy
import torch
from PIL import Image
from timm.data import auto_augment
from timm.data.mixup import Mixup, mixup_target
from torchvision.transforms import RandomResizedCrop, functional

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE / "data"

warnings.simplefilter("ignore")


def sha256(array):
    return hashlib.sha256(numpy.ascontiguousarray(array).tobytes()).hexdigest()


def load(path):
    """As torchvision's ImageFolder."""
    with open(path, "rb") as file:
        return Image.open(file).convert("RGB")


# ---- Small pictures of every kind ----


def pattern(width, height, channels):
    """Smooth, with an edge and some noise: what resampling and codecs treat differently."""
    random = numpy.random.default_rng(width * 1000 + height)
    y, x = numpy.mgrid[0:height, 0:width]
    planes = []
    for c in range(channels):
        plane = 127 + 90 * numpy.sin(0.13 * (c + 1) * x + 0.07 * y) + 30 * numpy.cos(0.21 * y * (c + 1))
        plane[(x + 2 * y) % 29 < 5] = 250 - 60 * c
        planes.append(plane + random.normal(0, 9, plane.shape))
    return numpy.stack(planes, -1).clip(0, 255).astype(numpy.uint8)


def png(width, height, depth, color, rows, chunks=(), interlaced=False):
    """A PNG file of packed rows, of kinds that Pillow does not write."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, int(interlaced))
    body = b"".join(b"\0" + row for row in rows)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + b"".join(chunk(*c) for c in chunks)
            + chunk(b"IDAT", zlib.compress(body, 9)) + chunk(b"IEND", b""))


def packed(samples, depth):
    """Rows of bytes of an array [H, W, channels] of samples."""
    rows = []
    for row in samples.reshape(samples.shape[0], -1):
        if depth == 16:
            rows.append(row.astype(">u2").tobytes())
        else:
            bits = numpy.unpackbits(row.astype(numpy.uint8)[:, None], axis=1)[:, 8 - depth:]
            rows.append(numpy.packbits(bits.reshape(-1)).tobytes())
    return rows


ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def png_files():
    width, height = 37, 29
    channels_of = {"gray": (0, 1), "rgb": (2, 3), "palette": (3, 1), "la": (4, 2), "rgba": (6, 4)}
    for kind, depths in (("gray", (1, 2, 4, 8, 16)), ("rgb", (8, 16)), ("palette", (1, 2, 4, 8)), ("la", (8, 16)),
                         ("rgba", (8, 16))):
        color, channels = channels_of[kind]
        full = pattern(width, height, channels).astype(numpy.uint32)
        for depth in depths:
            samples = full * 257 + 11 if depth == 16 else full >> (8 - depth)
            if kind == "gray" and depth == 16:
                samples = full * 2  # around the 255 at which Pillow clips
            chunks = []
            if kind == "palette":
                # Fewer colours than indices, and transparent ones.
                colors = numpy.random.default_rng(depth).integers(0, 256, (max(2, (1 << depth) * 3 // 4), 3))
                chunks = [(b"PLTE", colors.astype(numpy.uint8).tobytes()), (b"tRNS", bytes([0, 128]))]
            elif kind == "rgb" and depth == 8:
                chunks = [(b"gAMA", struct.pack(">I", 100000)), (b"tRNS", bytes([0, 250, 0, 190, 0, 130]))]
            yield f"{kind}{depth}.png", png(width, height, depth, color, packed(samples, depth), chunks)
            if depth in (4, 8):
                rows = []
                for left, top, dx, dy in ADAM7:
                    part = samples[top::dy, left::dx]
                    if part.size:
                        rows += packed(part, depth)
                yield f"{kind}{depth}_interlaced.png", png(width, height, depth, color, rows, chunks, interlaced=True)


def jpeg_files():
    def saved(array, mode, **options):
        buffer = io.BytesIO()
        Image.fromarray(array, mode).save(buffer, "JPEG", quality=85, **options)
        return buffer.getvalue()

    rgb = pattern(83, 61, 3)
    for name, sampling in (("444", "4:4:4"), ("422", "4:2:2"), ("420", "4:2:0")):
        yield f"ycc{name}.jpg", saved(rgb, "RGB", subsampling=sampling)
        yield f"ycc{name}_progressive.jpg", saved(rgb, "RGB", subsampling=sampling, progressive=True)
    yield "restarts.jpg", saved(rgb, "RGB", subsampling="4:2:0", restart_marker_rows=1)
    yield "rgb.jpg", saved(rgb, "RGB", keep_rgb=True)
    yield "gray.jpg", saved(rgb[:, :, 0], "L")
    yield "pixel.jpg", saved(rgb[:1, :1], "RGB")
    yield "column.jpg", saved(rgb[:, :1], "RGB")
    exif = Image.Exif()
    exif[0x0112] = 6
    yield "exif_rotated.jpg", saved(rgb, "RGB", exif=exif)
    cmyk = saved(pattern(83, 61, 4), "CMYK")
    yield "cmyk.jpg", cmyk
    marker = cmyk.index(b"Adobe")
    yield "ycck.jpg", cmyk[: marker + 11] + b"\2" + cmyk[marker + 12:]


def write_data():
    DATA.mkdir(exist_ok=True)
    for old in DATA.iterdir():
        old.unlink()
    for name, contents in (*png_files(), *jpeg_files()):
        (DATA / name).write_bytes(contents)
    (DATA / "png_named.JPEG").write_bytes((DATA / "rgba8.png").read_bytes())


def decoded(files, root):
    return {str(path.relative_to(root)): {"size": list(load(path).size), "sha256": sha256(numpy.asarray(load(path)))}
            for path in files}


# ---- Operations on pictures ----

FILTERS = {"box": Image.BOX, "bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC}

# Small pictures that every operation is applied to, and the first of the sample.
SMALL = ("ycc444.jpg", "palette8.png", "gray.jpg", "column.jpg", "pixel.jpg")
LARGE = 6


def resize(picture, size, filter):
    return picture.resize(size, FILTERS[filter])


def resized_crop(picture, box, size, filter):
    """box: left, top, width, height, as shares of the picture."""
    left, top = int(box[0] * picture.width), int(box[1] * picture.height)
    width, height = max(1, int(box[2] * picture.width)), max(1, int(box[3] * picture.height))
    return functional.resized_crop(picture, top, left, height, width, size[::-1],
                                   functional.InterpolationMode(filter))


def evaluation(picture, resized, crop, filter):
    """Resize of the short side, and a centre crop."""
    picture = functional.resize(picture, resized, functional.InterpolationMode(filter))
    return functional.center_crop(picture, crop)


def center_crop_arr(picture, side):
    """That of guided-diffusion and DiT, on which their models were trained."""
    while min(*picture.size) >= 2 * side:
        picture = picture.resize(tuple(x // 2 for x in picture.size), resample=Image.BOX)
    scale = side / min(*picture.size)
    picture = picture.resize(tuple(round(x * scale) for x in picture.size), resample=Image.BICUBIC)
    array = numpy.array(picture)
    top, left = (array.shape[0] - side) // 2, (array.shape[1] - side) // 2
    return array[top:top + side, left:left + side]


FILL = (124, 116, 104)
GEOMETRY = {"resample": Image.BICUBIC, "fillcolor": FILL}


def rand_augment(picture, kind, value):
    """timm's operations, with the values that their levels give."""
    function = auto_augment.NAME_TO_OP[kind]
    geometric = any(word in kind for word in ("Rotate", "Shear", "Translate"))
    return function(picture, *([] if value is None else [value]), **(GEOMETRY if geometric else {}))


def flip(picture):
    return functional.hflip(picture)


def hue(picture, turns):
    return functional.adjust_hue(picture, turns)


def color_jitter(picture, order, brightness, contrast, saturation):
    """torchvision's ColorJitter with what it has drawn."""
    for kind in order:
        picture = {"brightness": lambda p: functional.adjust_brightness(p, brightness),
                   "contrast": lambda p: functional.adjust_contrast(p, contrast),
                   "saturation": lambda p: functional.adjust_saturation(p, saturation)}[kind](picture)
    return picture


VALUES = {
    "AutoContrast": [None],
    "Equalize": [None],
    "Invert": [None],
    "Rotate": [0, 90, 180, 270, 27.0, -3.25, 30.0, 91.0, -400.0],
    "PosterizeIncreasing": [0, 1, 3, 4],
    "SolarizeIncreasing": [0, 26, 200, 256],
    "SolarizeAdd": [0, 99, 110],
    "ColorIncreasing": [0.1, 0.37, 1.0, 1.9],
    "ContrastIncreasing": [0.1, 0.37, 1.0, 1.9],
    "BrightnessIncreasing": [0.1, 0.37, 1.0, 1.9],
    "SharpnessIncreasing": [0.1, 0.37, 1.0, 1.9],
    "ShearX": [0.3, -0.27, 0.0],
    "ShearY": [0.3, -0.27],
    "TranslateXRel": [0.45, -0.405, 0.0],
    "TranslateYRel": [0.45, -0.1],
}


def op_cases():
    yield {"op": "flip"}
    for kind, values in VALUES.items():
        for value in values:
            yield {"op": "rand_augment", "kind": kind, "value": value}
    yield {"op": "color_jitter", "order": ["contrast", "brightness", "saturation"], "brightness": 1.3, "contrast": 0.7,
           "saturation": 1.21}
    yield {"op": "color_jitter", "order": ["saturation", "contrast", "brightness"], "brightness": 0.61,
           "contrast": 1.4, "saturation": 0.6}
    for turns in (-0.5, -0.21, 0.0, 0.003, 0.1, 0.37, 0.5):
        yield {"op": "hue", "turns": turns}
    for filter in FILTERS:
        for size in ((31, 20), (224, 224), (83, 17), (7, 61), (1, 1), (160, 240)):
            yield {"op": "resize", "size": size, "filter": filter}
        yield {"op": "resized_crop", "box": [0.2, 0.1, 0.5, 0.8], "size": (64, 48), "filter": filter}
        yield {"op": "resized_crop", "box": [0.7, 0.6, 0.3, 0.4], "size": (224, 224), "filter": filter}
        yield {"op": "evaluation", "resized": 256, "crop": 224, "filter": filter}
        yield {"op": "evaluation", "resized": 20, "crop": 32, "filter": filter}
        yield {"op": "evaluation", "resized": 63, "crop": 40, "filter": filter}
    for side in (5, 15, 31, 64, 256):
        yield {"op": "center_crop_arr", "side": side}


def applied(case, picture):
    """SHA-256 of a case's result."""
    arguments = {key: value for key, value in case.items() if key != "op"}
    return sha256(numpy.asarray(globals()[case["op"]](picture, **arguments)))


def run_cases(golden, sample):
    known = {json.dumps(case["case"]): case.get("sample", {}) for case in golden.get("cases", [])}
    results = []
    for case in op_cases():
        case = json.loads(json.dumps(case))
        result = {"case": case, "small": {name: applied(case, load(DATA / name)) for name in SMALL}}
        if sample:
            paths = sorted(sample.glob("*/*.JPEG"))[:LARGE]
            result["sample"] = {str(path.relative_to(sample)): applied(case, load(path)) for path in paths}
        else:
            result["sample"] = known.get(json.dumps(case), {})
        results.append(result)
    golden["cases"] = results


# ---- Floats, batches, and choices that leave nothing to chance ----

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
BATCH = ("ycc444.jpg", "palette8.png", "gray.jpg", "cmyk.jpg", "rgba8.png")
BATCH_SIZE = (48, 32)


def normalized(picture):
    return functional.normalize(functional.to_tensor(picture), MEAN, STD)


def crops_that_do_not_fit():
    """Where torchvision's random crop falls back to the middle: sizes and boxes, left, top, width and height."""
    for size in ((40, 40), (100, 10), (10, 100), (4, 3), (333, 250), (1, 500)):
        top, left, height, width = RandomResizedCrop.get_params(Image.new("RGB", size), [5, 5], [3 / 4, 4 / 3])
        yield [*size, left, top, width, height]


def mixed(count, amount, center, smoothing):
    """timm's Mixup of a batch with this lambda, or its CutMix with a box around (x, y)."""
    mixup = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, label_smoothing=smoothing, num_classes=7)
    mixup._params_per_batch = lambda: (amount, center is not None)
    pictures = torch.stack([normalized(load(DATA / name).resize(BATCH_SIZE, Image.BICUBIC)) for name in BATCH[:count]])
    places = iter(reversed(center or ()))
    randint, numpy.random.randint = numpy.random.randint, lambda *_, **__: next(places)
    corrected = mixup._mix_batch(pictures)
    numpy.random.randint = randint
    targets = mixup_target(torch.tensor([3, 0, 3, 6, 1][:count]), 7, corrected, smoothing)
    return {"count": count, "lambda": amount, "center": center, "smoothing": smoothing, "corrected": float(corrected),
            "pictures": sha256(pictures.permute(0, 2, 3, 1).numpy()), "targets": sha256(targets.numpy())}


def run_floats(golden):
    golden["normalized"] = {name: sha256(normalized(load(DATA / name)).permute(1, 2, 0).numpy()) for name in SMALL}
    golden["crops_that_do_not_fit"] = list(crops_that_do_not_fit())
    golden["mixed"] = [mixed(4, 0.3, None, 0.1), mixed(5, 0.8125, None, 0.0), mixed(4, 0.3, [20, 10], 0.1),
                       mixed(5, 0.9, [0, 31], 0.1), mixed(2, 0.0, [47, 0], 0.1)]


def dump(golden):
    """A line for each picture or case."""
    lines = []
    for key, value in golden.items():
        if isinstance(value, dict):
            inner = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
            lines.append(f' {json.dumps(key)}: {{\n{inner}\n }}')
        else:
            inner = ",\n".join(f"  {json.dumps(v)}" for v in value)
            lines.append(f' {json.dumps(key)}: [\n{inner}\n ]')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main():
    target = HERE / "golden.json"
    golden = json.loads(target.read_text()) if target.exists() else {}
    write_data()
    golden["decoded"] = decoded(sorted(DATA.iterdir()), DATA)
    sample = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else None
    if sample:
        golden["decoded_sample"] = decoded(sorted(sample.glob("*/*.JPEG")), sample)
    run_cases(golden, sample)
    run_floats(golden)
    target.write_text(dump(golden))


if __name__ == "__main__":
    main()
