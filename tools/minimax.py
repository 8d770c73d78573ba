#!/usr/bin/env python3
"""Derives the minimax polynomials of src/passes/loop/expand_math_*.cpp and prints them as C++ constants.

Remez exchange on a dense Chebyshev grid in 60-digit arithmetic. Coefficients are rounded to the element type one after
the other, lowest power first; after each rounding the free ones are fitted again, so that later coefficients make up for
the rounding of earlier ones. Run `tools/minimax.py` for all tables, `tools/minimax.py exp log` for some.
"""

import sys

import mpmath as mp
import numpy as np

mp.mp.dps = 60


def rounded(value, dtype):
    """`value` rounded to float32 or float64 (through double: what a C++ literal of 17 digits gives)."""
    return mp.mpf(float(np.float32(float(value)))) if dtype == "f32" else mp.mpf(float(value))


def remez(target, weight, powers, low, high, points=1200):
    """Coefficients c with max |weight * (target - sum c[i] * x**powers[i])| least on [low, high], and that maximum."""
    middle, half = (mp.mpf(low) + high) / 2, (mp.mpf(high) - low) / 2
    grid = [middle - half * mp.cos(mp.pi * (i + mp.mpf(1) / 2) / points) for i in range(points)]
    values, weights = [target(x) for x in grid], [weight(x) for x in grid]
    rows = [[x**p for p in powers] for x in grid]
    count = len(powers)
    reference = [int((points - 1) * (1 - np.cos(np.pi * i / count)) / 2) for i in range(count + 1)]
    best = None
    for _ in range(60):
        matrix, right = mp.matrix(count + 1, count + 1), mp.matrix(count + 1, 1)
        for r, i in enumerate(reference):
            for c in range(count):
                matrix[r, c] = weights[i] * rows[i][c]
            matrix[r, count] = (-1) ** r
            right[r] = weights[i] * values[i]
        solution = mp.lu_solve(matrix, right)
        coefficients, level = [solution[c] for c in range(count)], abs(solution[count])
        errors = [w * (v - mp.fdot(zip(row, coefficients))) for w, v, row in zip(weights, values, rows)]
        worst = max(abs(e) for e in errors)
        # An error that no free coefficient reaches (of a rounded constant term at 0) keeps the exchange from settling.
        if best is None or worst < best[1]:
            best = coefficients, worst
        if worst <= level * mp.mpf("1.002"):
            break
        reference = exchange(errors, count + 1)
    return best


def exchange(errors, wanted):
    """Indices of `wanted` extrema of alternating sign: the largest of each run of one sign, smallest ends dropped."""
    runs = []
    for i, e in enumerate(errors):
        if runs and (errors[runs[-1]] < 0) == (e < 0):
            if abs(e) > abs(errors[runs[-1]]):
                runs[-1] = i
        else:
            runs.append(i)
    while len(runs) > wanted:
        if len(runs) == wanted + 1:
            runs.pop(0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1)
        else:
            k = min(range(len(runs) - 1), key=lambda j: abs(errors[runs[j]]) + abs(errors[runs[j + 1]]))
            del runs[k : k + 2]
    if len(runs) < wanted:
        raise SystemExit("minimax: the error does not alternate often enough; the degree is too high for the grid")
    return runs


def fit(target, weight, powers, low, high, dtype, points=1000):
    """Minimax coefficients rounded to `dtype`, lowest power first, and the largest weighted error that they leave."""
    coefficients, worst = remez(target, weight, powers, low, high)
    chosen = dict(zip(powers, coefficients))
    middle, half = (mp.mpf(low) + high) / 2, (mp.mpf(high) - low) / 2
    grid = [middle - half * mp.cos(mp.pi * (i + mp.mpf(1) / 2) / points) for i in range(points)]
    values, weights = [target(x) for x in grid], [weight(x) for x in grid]
    basis = {p: np.array([float(w * x**p) for w, x in zip(weights, grid)]) for p in powers}

    def residual():
        return np.array(
            [float(w * (v - mp.fsum(c * x**p for p, c in chosen.items()))) for w, v, x in zip(weights, values, grid)]
        )

    for i, power in enumerate(powers):
        chosen[power] = rounded(chosen[power], dtype)
        free = powers[i + 1 :]
        if free and dtype == "f32":
            for p, change in zip(free, lawson(residual(), np.stack([basis[p] for p in free], axis=1))):
                chosen[p] += mp.mpf(float(change))
    return sorted(chosen.items()), max(abs(residual()))


def lawson(errors, matrix, rounds=150):
    """Changes c that make max |errors - matrix c| nearly least, by least squares whose weights follow the errors. Unlike the
    exchange it needs no alternation, which a basis that vanishes somewhere does not have."""
    weights = np.full(len(errors), 1.0 / len(errors))
    best, least = np.zeros(matrix.shape[1]), np.max(np.abs(errors))
    for _ in range(rounds):
        root = np.sqrt(weights)
        change = np.linalg.lstsq(matrix * root[:, None], errors * root, rcond=None)[0]
        left = np.abs(errors - matrix @ change)
        if left.max() < least:
            best, least = change, left.max()
        weights = weights * left
        weights /= weights.sum()
    return best


def relative(f):
    return lambda x: 1 / f(x) if f(x) != 0 else mp.mpf(0)


LN2 = mp.log(2)
SQRT2 = mp.sqrt(2)


def log1p_quotient(order):
    """(log1p(x) minus its Taylor terms below x**order) / x**order."""

    def f(x):
        if abs(x) < mp.mpf(10) ** -8:
            return sum((-1) ** (k + 1) * x ** (k - order) / k for k in range(order, order + 8))
        return (mp.log1p(x) - sum((-1) ** (k + 1) * x**k / k for k in range(1, order))) / x**order

    return f


def series_from(f, order, taylor):
    """(f(x) - sum of Taylor terms below x**order) / x**order, by the series near 0; taylor(k) is the k-th coefficient."""

    def g(x):
        if abs(x) < mp.mpf(10) ** -6:
            return sum(taylor(k) * x ** (k - order) for k in range(order, order + 12))
        return (f(x) - sum(taylor(k) * x**k for k in range(order))) / x**order

    return g


def odd_tail(f):
    """Target and relative weight of P in f(x) = x + x * s * P(s), s = x * x, for an odd f."""

    def target(s):
        x = mp.sqrt(s)
        return (f(x) - x) / x**3

    return target, lambda s: mp.sqrt(s) ** 3 / f(mp.sqrt(s))


class Tables:
    """Fits by name, in order; nothing is computed before it is asked for."""

    def __init__(self):
        self.fits = {}

    def add(self, name, comment, target, weight, degree, low, high, dtype="f32"):
        powers = list(range(degree + 1))
        self.fits[name] = comment, lambda: fit(target, weight, powers, mp.mpf(low), mp.mpf(high), dtype)


exp_tail = series_from(mp.exp, 2, lambda k: 1 / mp.factorial(k))
two_tail = series_from(lambda x: mp.mpf(2) ** x, 1, lambda k: LN2**k / mp.factorial(k))
log_tail = log1p_quotient(3)
TINY = mp.mpf(10) ** -9


def expm1_weight(x):
    return x * x / abs(mp.expm1(x)) if x != 0 else mp.mpf(0)


def log_weight(x):
    return abs(x**3 / mp.log1p(x)) if x != 0 else mp.mpf(0)


def add_exponentials(tables):
    wide, near = LN2 * mp.mpf("1.001"), LN2 / 2 * mp.mpf("1.001")
    exp_comment, log_comment = "expm1(r) = r + r^2 * P(r), |r| <= ln(2) / 2", "log1p(f) = f - f^2 / 2 + f^3 * P(f)"
    two_comment = "2^r = 1 + r * P(r), |r| <= 1/2"
    low, high = (1 / SQRT2 - 1) * mp.mpf("1.0001"), (SQRT2 - 1) * mp.mpf("1.0001")
    add = tables.add
    add("exp", "exp(r) = 1 + r + r^2 * P(r), |r| <= ln 2", exp_tail, lambda x: x * x / mp.exp(x), 5, -wide, wide)
    add("expm1", exp_comment, exp_tail, expm1_weight, 4, -near, near)
    add("exp2", two_comment, two_tail, lambda x: abs(x) / mp.mpf(2) ** x, 5, -0.5005, 0.5005)
    add("two_m1", two_comment + ", relative to 2^r - 1", two_tail, relative(two_tail), 5, -0.5005, 0.5005)
    add("log", log_comment + ", sqrt(1/2) <= 1 + f <= sqrt(2)", log_tail, log_weight, 7, low, high)
    # Good to about 2^-36: for float32 functions that compute in double.
    add("exp_double", exp_comment, exp_tail, expm1_weight, 6, -near, near, "f64")
    add("log_double", log_comment, log_tail, log_weight, 11, low, high, "f64")
    add(
        "tanh",
        "expm1(2 r) = 2 r + r^2 * P(r), |r| <= ln(2) / 4",
        lambda x: 4 * exp_tail(2 * x),
        lambda x: expm1_weight(2 * x) / 4,
        4,
        -near / 2,
        near / 2,
    )
    tables.add("tanh_small", "tanh(x) = x + x * s * P(s), s = x^2, |x| <= 0.55", *odd_tail(mp.tanh), 3, TINY, "0.3026")


def add_trigonometry(tables):
    quarter = (mp.pi / 4 * mp.mpf("1.001")) ** 2
    angle = ", s = r^2, |r| <= pi / 4"
    tables.add("sin", "sin(r) = r + r * s * P(s)" + angle, *odd_tail(mp.sin), 2, TINY, quarter)
    tables.add(
        "cos",
        "cos(r) = 1 + s * P(s)" + angle,
        lambda s: (mp.cos(mp.sqrt(s)) - 1) / s,
        lambda s: s / mp.cos(mp.sqrt(s)),
        3,
        TINY,
        quarter,
    )
    tables.add("tan", "tan(r) = r + r * s * P(s)" + angle, *odd_tail(mp.tan), 6, TINY, quarter)
    tables.add("atan", "atan(z) = z + z * s * P(s), s = z^2, |z| <= 1", *odd_tail(mp.atan), 7, TINY, 1)
    tables.add("asin", "asin(z) = z + z * s * P(s), s = z^2, |z| <= 1/2", *odd_tail(mp.asin), 4, TINY, 0.25)
    tables.add(
        "cotangent",
        "pi / tan(pi f) = 1 / f - f * P(s), s = f^2, |f| <= 1/2",
        lambda s: (1 / mp.sqrt(s) - mp.pi / mp.tan(mp.pi * mp.sqrt(s))) / mp.sqrt(s),
        lambda s: mp.mpf(1),
        8,
        TINY,
        0.25,
        "f64",
    )


def add_error_functions(tables):
    def exponent(x):
        return -mp.log(mp.erfc(x), 2) / x

    def exponent_weight(x):
        u = -mp.log(mp.erfc(x))
        return u * mp.exp(-u) / mp.erf(x) / exponent(x)

    def scaled_erfc(t):
        x = 2 * (1 + t) / (1 - t)
        return mp.exp(x * x) * mp.erfc(x)

    def erfinv_of(w):
        if w < mp.mpf(10) ** -20:
            return mp.sqrt(mp.pi) / 2
        x = mp.sqrt(-mp.expm1(-w))
        return mp.erfinv(x) / x

    def central(v):
        return erfinv_of(v + mp.mpf("2.5"))

    def tail(v):
        return erfinv_of((v + 3) ** 2)

    tables.add("erf", "erf(x) = 1 - 2^(-x * P(x)), 0 <= x <= 4", exponent, exponent_weight, 9, TINY, 4)
    comment = "erfc(x) = exp(-x^2) * P((x - 2) / (x + 2)), 0 <= x <= 10.2"
    tables.add("erfc", comment, scaled_erfc, relative(scaled_erfc), 11, -1, "0.6722", "f64")
    # After M. Giles, "Approximating the erfinv function" (2010).
    comment = "erfinv(x) = x * P(w - 2.5), w = -log(1 - x^2) < 5"
    tables.add("erfinv_central", comment, central, relative(central), 9, -2.5, 2.5, "f64")
    comment = "erfinv(x) = x * P(sqrt(w) - 3), 5 <= w <= 37"
    tables.add("erfinv_tail", comment, tail, relative(tail), 14, mp.sqrt(5) - 3, "3.1", "f64")


def main(names):
    tables = Tables()
    for add in (add_exponentials, add_trigonometry, add_error_functions):
        add(tables)
    for name in names or tables.fits:
        comment, thunk = tables.fits[name]
        coefficients, worst = thunk()
        print(f"// {comment}; error 2^{float(mp.log(worst, 2)):.1f}")
        print(f"{name}: {{" + ", ".join(repr(float(c)) for _, c in coefficients) + "}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
