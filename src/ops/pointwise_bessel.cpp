// Modified Bessel functions of the first kind, I0 and I1, as eager has them: one Chebyshev series up to 8 and one
// beyond, with the coefficients of S. L. Moshier's Cephes library, which eager uses, so that results are equal bit for
// bit.
#include "ops/pointwise.h"

namespace oxyfuel {

namespace {

/// A series in T_k(y / 2) in reverse order, the zeroth last: whole for float64, its last `f32_terms` for float32.
struct Series {
  std::span<const double> coefficients;
  size_t f32_terms;
};

// exp(-x) I0(x) on [0, 8] in y = x / 2 - 2.
constexpr double kI0[] = {
    -4.4153416464793395e-18, 3.3307945188222384e-17, -2.431279846547955e-16, 1.715391285555133e-15,
    -1.1685332877993451e-14, 7.676185498604936e-14,  -4.856446783111929e-13, 2.95505266312964e-12,
    -1.726826291441556e-11,  9.675809035373237e-11,  -5.189795601635263e-10, 2.6598237246823866e-09,
    -1.300025009986248e-08,  6.046995022541919e-08,  -2.670793853940612e-07, 1.1173875391201037e-06,
    -4.4167383584587505e-06, 1.6448448070728896e-05, -5.754195010082104e-05, 0.00018850288509584165,
    -0.0005763755745385824,  0.0016394756169413357,  -0.004324309995050576,  0.010546460394594998,
    -0.02373741480589947,    0.04930528423967071,    -0.09490109704804764,   0.17162090152220877,
    -0.3046826723431984,     0.6767952744094761};
// exp(-x) sqrt(x) I0(x) on [8, infinity] in y = 32 / x - 2.
constexpr double kI0Far[] = {
    -7.23318048787476e-18,   -4.830504485944178e-18,  4.46562142029676e-17,    3.461222867697461e-17,
    -2.8276239805165836e-16, -3.425485619677219e-16,  1.7725601330565263e-15,  3.8116806693526224e-15,
    -9.554846698828307e-15,  -4.150569347287222e-14,  1.54008621752141e-14,    3.8527783827421426e-13,
    7.180124451383666e-13,   -1.7941785315068062e-12, -1.3215811840447713e-11, -3.1499165279632416e-11,
    1.1889147107846439e-11,  4.94060238822497e-10,    3.3962320257083865e-09,  2.266668990498178e-08,
    2.0489185894690638e-07,  2.8913705208347567e-06,  6.889758346916825e-05,   0.0033691164782556943,
    0.8044904110141088};
// exp(-x) I1(x) / x on [0, 8] in y = x / 2 - 2.
constexpr double kI1[] = {
    2.7779141127610464e-18, -2.111421214358166e-17,  1.5536319577362005e-16, -1.1055969477353862e-15,
    7.600684294735408e-15,  -5.042185504727912e-14,  3.223793365945575e-13,  -1.9839743977649436e-12,
    1.1736186298890901e-11, -6.663489723502027e-11,  3.625590281552117e-10,  -1.8872497517228294e-09,
    9.381537386495773e-09,  -4.445059128796328e-08,  2.0032947535521353e-07, -8.568720264695455e-07,
    3.4702513081376785e-06, -1.3273163656039436e-05, 4.781565107550054e-05,  -0.00016176081582589674,
    0.0005122859561685758,  -0.0015135724506312532,  0.004156422944312888,   -0.010564084894626197,
    0.024726449030626516,   -0.05294598120809499,    0.1026436586898471,     -0.17641651835783406,
    0.25258718644363365};
// exp(-x) sqrt(x) I1(x) on [8, infinity] in y = 32 / x - 2.
constexpr double kI1Far[] = {
    7.517296310842111e-18,   4.414348323071704e-18,  -4.650305368489358e-17,  -3.209525921993424e-17,
    2.96262899764595e-16,    3.3082023109209285e-16, -1.8803547755107825e-15, -3.8144030724370075e-15,
    1.0420276984128802e-14,  4.272440016711951e-14,  -2.1015418427726643e-14, -4.0835511110921974e-13,
    -7.198551776245908e-13,  2.0356285441470896e-12, 1.4125807436613782e-11,  3.2526035830154884e-11,
    -1.8974958123505413e-11, -5.589743462196584e-10, -3.835380385964237e-09,  -2.6314688468895196e-08,
    -2.512236237870209e-07,  -3.882564808877691e-06, -0.00011058893876262371, -0.009761097491361469,
    0.7785762350182801};

/// Clenshaw's recurrence in eager's order, with the contraction of its compiler.
Expr sum_of(Series series, Expr y) {
  size_t terms = y.dtype() == DType::kF64 ? series.coefficients.size() : series.f32_terms;
  std::span<const double> rest = series.coefficients.last(terms);
  Expr last = y.like(0), before = last, value = y.like(rest[0]);
  for (double coefficient : rest.subspan(1)) {
    before = last;
    last = value;
    value = fma(y, last, -before) + y.like(coefficient);
  }
  return y.like(0.5) * (value - before);
}

constexpr Series kNear[] = {{kI0, 30}, {kI1, 17}}, kFar[] = {{kI0Far, 25}, {kI1Far, 7}};

/// exp(-|x|) I(x), or I(x), of the given order.
Expr bessel(Expr x, int order, bool is_scaled) {
  Expr a = abs(x), scale = is_scaled ? x.like(1) : exp(a);
  Expr near = (order == 0 ? scale : scale * a) * sum_of(kNear[order], a / x.like(2) - x.like(2));
  Expr far = scale * sum_of(kFar[order], x.like(32) / a - x.like(2)) / sqrt(a);
  Expr size = select(a <= x.like(8), near, far);
  return order == 1 ? select(x < x.like(0), -size, size) : size;
}

struct Bessel : Pointwise<1> {
  static constexpr DTypeRule dtype = DTypeRule::kFloat;
  static constexpr int ulps = 10, cost = 60;
};

struct I0 : Bessel {
  static constexpr std::string_view name = "i0",
                                    aten = "aten.i0.default aten.special_i0.default prims.bessel_i0.default",
                                    doc = "modified Bessel function of the first kind, order 0";
  static auto body(auto x) { return bessel(x, 0, false); }
};
struct I0e : Bessel {
  static constexpr std::string_view name = "i0e", aten = "aten.special_i0e.default prims.bessel_i0e.default",
                                    doc = "exp(-|x|) * i0(x)";
  static auto body(auto x) { return bessel(x, 0, true); }
};
struct I1 : Bessel {
  static constexpr std::string_view name = "i1", aten = "aten.special_i1.default prims.bessel_i1.default",
                                    doc = "modified Bessel function of the first kind, order 1";
  static auto body(auto x) { return bessel(x, 1, false); }
};
struct I1e : Bessel {
  static constexpr std::string_view name = "i1e", aten = "aten.special_i1e.default prims.bessel_i1e.default",
                                    doc = "exp(-|x|) * i1(x)";
  static auto body(auto x) { return bessel(x, 1, true); }
};

using Table = PointwiseTable<I0, I0e, I1, I1e>;

} // namespace

OpTable pointwise_bessel() { return Table::table(); }

} // namespace oxyfuel
