// Complex numbers: parts, conjugation, polar form.
#include "ops/pointwise.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

struct Real : Pointwise<1> {
  static constexpr std::string_view name = "real", doc = "real part", aten = "aten.real.default prims.real.default";
  static constexpr DTypeRule dtype = DTypeRule::kReal;
  static auto body(auto x) { return is_complex(x.dtype()) ? real(x) : x; }
};

struct Imag : Pointwise<1> {
  static constexpr std::string_view name = "imag", doc = "imaginary part",
                                    aten = "aten.imag.default prims.imag.default";
  static constexpr DTypeRule dtype = DTypeRule::kReal;
  static auto body(auto x) { return is_complex(x.dtype()) ? imag(x) : x.like(0); }
};

DType complex_type(DType part) { return part == DType::kF64 ? DType::kC128 : DType::kC64; }

/// Result type is the attribute "dtype"; parts are computed in "compute".
struct Complex : Pointwise<2> {
  static constexpr std::string_view name = "complex", doc = "a + i b";
  static auto body(auto a, auto b) { return complex(a, b); }
};

struct Polar : Pointwise<2> {
  static constexpr std::string_view name = "polar", doc = "a * (cos(b) + i sin(b))";
  static constexpr int ulps = 2, cost = 30;
  static auto body(auto a, auto b) { return complex(a * cos(b), a * sin(b)); }
};

struct Conj : Pointwise<1> {
  static constexpr std::string_view name = "conj", doc = "complex conjugate",
                                    aten = "aten._conj.default aten.conj.default aten._conj_physical.default "
                                           "aten.conj_physical.default prims.conj_physical.default";
  static auto body(auto x) { return is_complex(x.dtype()) ? complex(real(x), -imag(x)) : x; }
};

struct Angle : Pointwise<1> {
  static constexpr std::string_view name = "angle", aten = "aten.angle.default",
                                    doc = "argument of a complex number; pi for negative reals, NaN stays";
  static constexpr DTypeRule dtype = DTypeRule::kReal;
  static constexpr int ulps = 2, cost = 30;
  static auto body(auto x) {
    if (is_complex(x.dtype()))
      return atan2(imag(x), real(x));
    return select(ne(x, x), x, select(x < x.like(0), x.like(3.14159265358979323846), x.like(0)));
  }
};

using Table = PointwiseTable<Real, Imag, Complex, Polar, Conj, Angle>;

std::vector<graph::Value *> make_complex(GraphBuilder &b, const AtenCall &call, std::string_view op) {
  DType result = call.results.at(0).dtype, part = real_of(result);
  if (!is_complex(result))
    throw UnsupportedError(call.overload + " in half precision");
  return {b.pointwise(op, {call.value(0), call.value(1)}, part, complex_type(part))};
}

std::vector<graph::Value *> import_complex(GraphBuilder &b, const AtenCall &call) {
  return make_complex(b, call, "complex");
}
std::vector<graph::Value *> import_polar(GraphBuilder &b, const AtenCall &call) {
  return make_complex(b, call, "polar");
}

constexpr AtenRule kRules[] = {
    {"aten.complex.default", import_complex},
    {"aten.polar.default", import_polar},
};

} // namespace

OpTable pointwise_complex() { return Table::table(); }
OpTable aten_complex() { return {{}, kRules}; }

} // namespace oxyfuel
