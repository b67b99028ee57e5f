#!/usr/bin/env python3
"""Write the golden values of tests/task/test_metrics.c with scikit-learn: tests/golden/metrics/expected.txt, or the file given.

    python3 tools/golden/make_metrics.py [FILE]

Scores and targets come from the same integer formulas in the test, so that only the results of scikit-learn and scipy are
written. The calibration error is computed here: Guo et al., arXiv 1706.04599, with 15 bins.
"""

import argparse
import pathlib

import numpy
import scipy.stats
from sklearn import metrics

SAMPLES = 211


def score(i, k):
    return ((i * 37 + k * 91 + i * i * (k + 3) * 13) % 64) / 16 - 2


def scores(labels):
    return numpy.array([[score(i, k) for k in range(labels)] for i in range(SAMPLES)])


def label(i, labels):
    """Return targets that often have the highest score."""
    best = int(numpy.argmax([score(i, k) for k in range(labels)]))
    return best if i % 3 else (i * 5 // 3) % labels


def softmax(x):
    e = numpy.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def calibration_error(truth, probabilities):
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == truth
    bins = numpy.ceil(confidence * 15).astype(int)
    return sum(abs(right[bins == b].sum() - confidence[bins == b].sum()) for b in range(16)) / len(truth)


def average_precision(truth, ranked):
    """Average over the labels that some samples have and others do not."""
    present = [k for k in range(ranked.shape[1]) if 0 < truth[:, k].sum() < len(truth)]
    return numpy.mean([metrics.average_precision_score(truth[:, k], ranked[:, k]) for k in present])


def area_under_roc(truth, probabilities):
    present = [k for k in range(probabilities.shape[1]) if 0 < (truth == k).sum() < len(truth)]
    return numpy.mean([metrics.roc_auc_score(truth == k, probabilities[:, k]) for k in present])


def single_label(labels):
    """With more than two labels, the last one never occurs, and its scores are too low for it to be predicted."""
    present = labels - (labels > 2)
    x = numpy.hstack([scores(present), numpy.full((SAMPLES, labels - present), -3.0)])
    truth = numpy.array([label(i, present) for i in range(SAMPLES)])
    predicted, p = x.argmax(axis=1), softmax(x)
    area = area_under_roc(truth, p)
    if labels == 2:
        assert numpy.isclose(area, metrics.roc_auc_score(truth, x[:, 1] - x[:, 0]))
    return {
        "accuracy": metrics.accuracy_score(truth, predicted),
        "macro_f1": metrics.f1_score(truth, predicted, average="macro", zero_division=0),
        "micro_f1": metrics.f1_score(truth, predicted, average="micro", zero_division=0),
        "macro_precision": metrics.precision_score(truth, predicted, average="macro", zero_division=0),
        "macro_recall": metrics.recall_score(truth, predicted, average="macro", zero_division=0),
        "mcc": metrics.matthews_corrcoef(truth, predicted),
        "weighted_f1": metrics.f1_score(truth, predicted, average="weighted", zero_division=0),
        "auroc": area,
        "average_precision": average_precision(truth[:, None] == numpy.arange(labels), p),
        "calibration_error": calibration_error(truth, p),
    }


def several_labels(labels):
    x = scores(labels)
    truth = numpy.array([[(score(i, k) > 0) != ((i + k) % 4 == 0) for k in range(labels)] for i in range(SAMPLES)])
    truth[:, labels - 1] = 0
    predicted = x > 0
    areas = [metrics.roc_auc_score(truth[:, k], x[:, k]) for k in range(labels - 1)]
    return {
        "subset_accuracy": metrics.accuracy_score(truth, predicted),
        "macro_f1": metrics.f1_score(truth, predicted, average="macro", zero_division=0),
        "micro_f1": metrics.f1_score(truth, predicted, average="micro", zero_division=0),
        "macro_precision": metrics.precision_score(truth, predicted, average="macro", zero_division=0),
        "macro_recall": metrics.recall_score(truth, predicted, average="macro", zero_division=0),
        "weighted_f1": metrics.f1_score(truth, predicted, average="weighted", zero_division=0),
        "hamming_loss": metrics.hamming_loss(truth, predicted),
        "auroc": numpy.mean(areas),
        "average_precision": average_precision(truth, x),
    }


def numbers(count):
    x = scores(count)
    truth = numpy.array([[score(i, k) / 2 + (i % 5) / 4 for k in range(count)] for i in range(SAMPLES)])
    return {
        "mse": metrics.mean_squared_error(truth, x),
        "mae": metrics.mean_absolute_error(truth, x),
        "r2": metrics.r2_score(truth, x),
        "pearson": numpy.mean([scipy.stats.pearsonr(truth[:, k], x[:, k]).statistic for k in range(count)]),
        "spearman": numpy.mean([scipy.stats.spearmanr(truth[:, k], x[:, k]).statistic for k in range(count)]),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = pathlib.Path(__file__).parent.parent.parent / "tests/golden/metrics/expected.txt"
    parser.add_argument("file", nargs="?", type=pathlib.Path, default=default)
    cases = {
        "EITP_PROBLEM_SINGLE_LABEL, 2": single_label(2),
        "EITP_PROBLEM_SINGLE_LABEL, 6": single_label(6),
        "EITP_PROBLEM_MULTI_LABEL, 4": several_labels(4),
        "EITP_PROBLEM_REGRESSION, 2": numbers(2),
    }
    lines = ["/* Written by tools/golden/make_metrics.py. */"]
    for case, values in cases.items():
        lines += [f'{{{case}, "{name}", {value:.17g}}},' for name, value in values.items()]
    parser.parse_args().file.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
