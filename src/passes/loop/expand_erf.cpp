// The error function, its complement and its inverse.
#include "passes/loop/expand_math_internal.h"
#include "runtime/abi.h"

namespace oxyfuel::math {

/// erf(a) = 1 - 2^-u(a). u is smooth from 0 on, and 1 - 2^-u, evaluated like expm1, keeps what is small: one polynomial
/// for u and one for the power serve the whole range, without a division.
Expr expand_erf(Expr x) {
  const Expr size = at_most(abs(x), 4); // erf is 1 from 3.92 on
  // The first coefficients multiply inside an fma: small arguments would show each rounding.
  // minimax.py erf
  const Expr power_tail = polynomial(size, {0.9184473752975464, 0.1482808142900467, -0.02765275351703167,
                                            -0.00017613652744330466, 0.0023250195663422346, -0.00084710493683815,
                                            0.0001390172546962276, -5.850397428730503e-06, -7.442012588398939e-07});
  const Expr power = fma(size, x.like(-1.6279070377349854), -(size * size * power_tail));
  const Expr rounded = power + x.like(kRound + 127);
  const Expr r = power - (rounded - x.like(kRound + 127));
  // minimax.py two_m1
  const Expr tail = polynomial(
      r, {0.24022649228572845, 0.05550367385149002, 0.0096183056011796, 0.001338742091320455, 0.00015384577272925526});
  const Expr value = fma(r, x.like(0.6931471824645996), r * r * tail);
  const Expr scale = power_of_two(rounded);
  return with_sign_of(fma(-scale, value, x.like(1) - scale), x);
}

/// erfc(a) = exp(-a^2) P((a - 2) / (a + 2)) in double, and 2 - erfc(a) on the left.
Expr expand_erfc(Expr x) {
  const Expr size = cast(at_most(abs(x), 10.2), DType::kF64); // erfc is 0 from 10.06 on
  const Expr t = (size - size.like(2)) / (size + size.like(2));
  // minimax.py erfc
  const Expr value =
      exp_double(-(size * size)) *
      polynomial(t, {0.25539567656731504, -0.4271858530603249, 0.24165817433841313, -0.07897836069708443,
                     0.003733163085428045, 0.006995142006360881, -0.0008488478030349309, -0.0009719385628542562,
                     5.007681067037793e-05, 0.00015460473117106748, 1.336164145319115e-05, -1.1991488510131456e-05});
  return cast(select(x < x.like(0), value.like(2) - value, value), DType::kF32);
}

/// In double, to 2^-26: x P(w), w = -log(1 - x^2), after M. Giles, "Approximating the erfinv function" (2010), with
/// polynomials of our own.
static Expr erfinv_double(Expr x, Expr w) {
  // minimax.py erfinv_central
  const Expr central = polynomial(
      w - w.like(2.5), {1.5014093592840436, 0.24664028615536987, -0.004177386785078427, -0.0012527418836975367,
                        0.00021834444162984292, -4.963344598594028e-06, -3.4627051820816365e-06, 4.6616994697434434e-07,
                        2.3232670843599904e-08, -8.791004683040062e-09});
  // minimax.py erfinv_tail
  const Expr tail =
      polynomial(sqrt(w) - w.like(3),
                 {2.8329768096725254, 1.0016754075893162, 0.009444952505392432, -0.007645926332482808,
                  0.005691166119158843, -0.003551670342879208, 0.0014590483813480745, -0.00014686398938219594,
                  -0.00024403885044751254, 0.0001713713253489433, -5.419210004560593e-05, 7.776725829964234e-06,
                  1.2419436547178587e-07, -1.8379228795481862e-07, 1.680699059319946e-08});
  return x * select(w < w.like(5), central, tail);
}

/// The residual erf(y) - x, near the poles through erfc so that nothing cancels.
static Expr newton_step(Expr y, Expr x) {
  const Expr size = abs(x), root = abs(y);
  const Expr residual =
      select(size < x.like(0.5), host_call(root, kHostErf) - size, (x.like(1) - size) - host_call(root, kHostErfc));
  const Expr slope = x.like(2 / std::sqrt(kPi)) * host_call(-(root * root), kHostExp);
  return with_sign_of(root - residual / slope, x);
}

Expr expand_erfinv(Expr x) {
  const Expr size = abs(x);
  const Expr limit = select(eq(size, x.like(1)), with_sign_of(x.like(kInfinity), x), x.like(kNan));
  const Expr wide = cast(x, DType::kF64);
  const Expr gap = (wide.like(1) - wide) * (wide.like(1) + wide);
  if (x.dtype() == DType::kF32)
    return select(size < x.like(1), cast(erfinv_double(wide, -log_double(gap)), DType::kF32), limit);
  const Expr start = erfinv_double(x, -host_call(gap, kHostLog));
  const Expr value = newton_step(newton_step(start, x), x);
  return select(size < x.like(1), select(eq(x, x.like(0)), x, value), limit);
}

} // namespace oxyfuel::math
