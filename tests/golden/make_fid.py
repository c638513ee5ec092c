"""Makes tests/golden/fid: features of two sets of pictures, and their scores by NumPy and SciPy in the formulas of
guided-diffusion's evaluator. Needs numpy and scipy:

    python3 tests/golden/make_fid.py
"""

import json
import pathlib

import numpy
import scipy.linalg

FOLDER = pathlib.Path(__file__).parent / "fid"
BLOCK = 5000  # of the inception score; the evaluator's
NEIGHBOURS = 3


def features(random, count, width, shift):
    """Correlated features around a mean that is large beside their spread, as ReLU leaves them."""
    mixing = random.normal(size=(width, width)) * numpy.logspace(0, -2, width)
    return (3 + shift + random.normal(size=(count, width)) @ mixing).astype(numpy.float32)


def probabilities(random, count, classes):
    logits = 2 * random.normal(size=(count, classes))
    shares = numpy.exp(logits - logits.max(1, keepdims=True))
    return (shares / shares.sum(1, keepdims=True)).astype(numpy.float32)


def moments(rows):
    rows = rows.astype(numpy.float64)
    return rows.mean(0), numpy.cov(rows, rowvar=False)


def frechet(a, b):
    (m1, c1), (m2, c2) = a, b
    root = scipy.linalg.sqrtm(c1 @ c2)
    return float(((m1 - m2) ** 2).sum() + numpy.trace(c1) + numpy.trace(c2) - 2 * numpy.trace(root).real)


def inception_score(shares):
    shares = shares.astype(numpy.float64)
    scores = []
    for first in range(0, len(shares), BLOCK):
        part = shares[first:first + BLOCK]
        scores.append(numpy.exp((part * (numpy.log(part) - numpy.log(part.mean(0)))).sum(1).mean()))
    return float(numpy.mean(scores))


def distances(a, b):
    return ((a[:, None, :].astype(numpy.float64) - b[None, :, :]) ** 2).sum(2)


def precision_and_recall(reference, samples):
    def radii(points):
        return numpy.sort(distances(points, points), 1)[:, NEIGHBOURS]  # column 0 is the point itself
    between = distances(samples, reference)
    return float((between <= radii(reference)).any(1).mean()), float((between.T <= radii(samples)).any(1).mean())


def main():
    random = numpy.random.default_rng(7)
    FOLDER.mkdir(exist_ok=True)
    arrays = {}
    for name, count, shift in (("reference", 60, 0.0), ("samples", 50, 0.05)):
        arrays[name] = {"activations": features(random, count, 16, shift), "activations_s": features(random, count, 7, shift),
                        "probabilities": probabilities(random, count, 5)}
    numpy.savez(FOLDER / "samples.npz", **arrays["samples"])
    a, b = arrays["reference"], arrays["samples"]
    mu, sigma = moments(a["activations"])
    mu_s, sigma_s = moments(a["activations_s"])
    numpy.savez(FOLDER / "reference.npz", **a)
    numpy.savez(FOLDER / "statistics.npz", mu=mu, sigma=sigma, mu_s=mu_s, sigma_s=sigma_s)
    few = features(random, 10, 16, 0.0)  # of a singular covariance
    numpy.save(FOLDER / "few.npy", few)
    precision, recall = precision_and_recall(a["activations"], b["activations"])
    scores = {"fid": frechet((mu, sigma), moments(b["activations"])),
              "sfid": frechet((mu_s, sigma_s), moments(b["activations_s"])),
              "inception_score": inception_score(b["probabilities"]), "precision": precision, "recall": recall,
              "fid_of_few": frechet((mu, sigma), moments(few))}
    (FOLDER / "scores.json").write_text(json.dumps(scores, indent=1) + "\n")


if __name__ == "__main__":
    main()
