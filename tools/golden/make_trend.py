#!/usr/bin/env python3
"""Write the golden values of tests/base/test_trend.c with scipy and pymannkendall: tests/golden/trend/expected.txt, or the file given.

    python3 tools/golden/make_trend.py [FILE]

The series come from the same integer formulas in the test. Slope, intercept and tau are from scipy, S and its variance
without autocorrelation from pymannkendall. The correction for autocorrelation is computed here (Yue and Wang, 2004, on ranks,
bias-corrected), because pymannkendall's Yue and Wang test sums over all lags. The script checks that it agrees with lag=1 and
the same r.
"""

import argparse
import pathlib

import numpy
import pymannkendall
from scipy import stats

POINTS = 256
NAN = float("nan")


def noise(i):
    return ((i * 37 + i * i * 13) % 64) / 16


def correlated(count):
    y, last = [], 0.0
    for i in range(count):
        last = 0.5 * last + noise(i)
        y.append(last)
    return y


def series():
    """Yield name, x and y."""
    yield "noise", range(40), [noise(i) for i in range(40)]
    yield "rising", range(100), [noise(i) + 0.0625 * i for i in range(100)]
    yield "ties", range(60), [float(i * 7 % 5 + i // 20) for i in range(60)]
    yield "correlated", range(120), correlated(120)
    yield "uneven", [i + (i * i % 7) / 16 for i in range(50)], [noise(i) - 0.03125 * i for i in range(50)]
    yield "gaps", range(70), [NAN if i % 7 == 3 else noise(i) + 0.03125 * i for i in range(70)]
    yield "long", range(1000), [noise(i) + 0.001953125 * i for i in range(1000)]
    yield "constant", range(20), [2.5] * 20
    yield "few", range(3), [8.53, 8.44, 8.14]


def blocks(x, y):
    """Combine neighbours in long series: the mean of x, the median of y."""
    if len(x) <= POINTS:
        return x, y
    ends = [len(x) * (b + 1) // POINTS for b in range(POINTS)]
    parts = list(zip([0] + ends[:-1], ends))
    return numpy.array([x[a:b].mean() for a, b in parts]), numpy.array([numpy.median(y[a:b]) for a, b in parts])


def lag_one(x, y, slope):
    """Return the autocorrelation of the ranks of the residuals: as measured, and bias-corrected."""
    n = len(y)
    ranks = stats.rankdata(y - slope * (x - x[0])) - (n + 1) / 2
    if n < 10 or not ranks.any():
        return 0.0, 0.0
    r = (ranks[1:] * ranks[:-1]).sum() / (ranks * ranks).sum()
    return r, min(max((n * r + 2) / (n - 4), 0), 0.98)


def interval(x, y, sigma):
    """Return Sen's interval, like scipy.stats.theilslopes, for a different deviation of S."""
    i, j = numpy.triu_indices(len(y), 1)
    slopes = numpy.sort((y[j] - y[i]) / (x[j] - x[i]))
    z = stats.norm.ppf(0.025)
    high = min(int(numpy.round((len(slopes) - z * sigma) / 2)), len(slopes) - 1)
    low = max(int(numpy.round((len(slopes) + z * sigma) / 2)) - 1, 0)
    return slopes[low], slopes[high]


def check_yue_wang(y, original):
    """Check that pymannkendall's factor at lag 1 equals the first term of the sum here, with values instead of ranks."""
    n = len(y)
    left = y - numpy.arange(1, n + 1) * original.slope
    left = left - left.mean()
    r = (left[1:] * left[:-1]).sum() / (left * left).sum()
    theirs = pymannkendall.yue_wang_modification_test(y, lag=1).var_s
    assert numpy.isclose(theirs, original.var_s * (1 + 2 * (1 - 1 / n) * r)), (theirs, original.var_s)


def expect(x, y):
    x, y = numpy.array(x, dtype=float), numpy.array(y, dtype=float)
    finite = numpy.isfinite(y)
    count = int(finite.sum())
    x, y = blocks(x[finite], y[finite])
    n = len(y)
    sen = stats.theilslopes(y, x)
    original = pymannkendall.original_test(y)
    assert numpy.allclose(interval(x, y, numpy.sqrt(original.var_s)), [sen.low_slope, sen.high_slope])
    r, corrected = lag_one(x, y, sen.slope)
    if r:
        check_yue_wang(y, original)
    lags = numpy.arange(1, n)
    variance = original.var_s * (1 + 2 * ((1 - lags / n) * corrected**lags).sum())
    z = (original.s - numpy.sign(original.s)) / numpy.sqrt(variance) if variance > 0 else 0.0
    low, high = interval(x, y, numpy.sqrt(variance))
    tau = stats.kendalltau(x, y).statistic
    return [
        count, n, sen.slope, low, high, sen.intercept, original.s, 0.0 if numpy.isnan(tau) else tau, variance, z,
        2 * stats.norm.sf(abs(z)), corrected, n * original.var_s / variance if variance > 0 else n,
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    default = pathlib.Path(__file__).parent.parent.parent / "tests/golden/trend/expected.txt"
    parser.add_argument("file", nargs="?", type=pathlib.Path, default=default)
    file = parser.parse_args().file
    lines = ["/* Written by tools/golden/make_trend.py. */"]
    for name, x, y in series():
        values = ", ".join(f"{v:d}" if isinstance(v, int) else f"{float(v):.17g}" for v in expect(x, y))
        lines.append(f'{{"{name}", {{{values}}}}},')
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
