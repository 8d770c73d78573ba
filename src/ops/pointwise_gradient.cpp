// Gradients of activation functions: operand 0 is the gradient of the result. Formulas follow
// ATen/native/cpu/Activation.cpp.
#include <cmath>

#include "ops/activation.h"
#include "ops/pointwise.h"

namespace oxyfuel {

namespace {

template <int N> struct Gradient : Pointwise<N> {
  static constexpr int ulps = 4, cost = 24;
  static constexpr bool is_real_only = true; // complex gradients take conjugates
};

struct GeluBackward : Gradient<2> {
  static constexpr std::string_view name = "gelu_backward", aten = "aten.gelu_backward.default",
                                    doc = "gradient of gelu";
  static Attributes attributes(const AtenCall &call) {
    return {{"approximate", call.has(2) ? call.text(2) : std::string("none")}};
  }
  static auto body(auto g, auto x, const graph::Node &node) {
    auto half = x.like(0.5), one = x.like(1);
    if (node.get<std::string>("approximate") == "tanh") {
      auto t = tanh(gelu_tanh_argument(x));
      auto left = half * x, right = one + t;
      auto inner = x.like(kGeluScale) * (one + x.like(3 * kGeluCubic) * x * x);
      return g * (half * right + left * (one - t * t) * inner);
    }
    auto cdf = half * (one + erf(x * x.like(M_SQRT1_2)));
    auto pdf = x.like(M_2_SQRTPI * M_SQRT1_2 * 0.5) * exp(x * x * x.like(-0.5));
    return g * (cdf + x * pdf);
  }
};

struct SiluBackward : Gradient<2> {
  static constexpr std::string_view name = "silu_backward", aten = "aten.silu_backward.default",
                                    doc = "gradient of silu";
  static auto body(auto g, auto x) {
    auto one = x.like(1);
    auto s = sigmoid_of(x);
    return g * s * (one + x * (one - s));
  }
};

struct SigmoidBackward : Gradient<2> {
  static constexpr std::string_view name = "sigmoid_backward", aten = "aten.sigmoid_backward.default",
                                    doc = "gradient of sigmoid from its result";
  static constexpr int ulps = 0, cost = 3;
  static auto body(auto g, auto y, const graph::Node &node) {
    // Eager's float16 kernel rounds after every step, its bfloat16 kernel does not.
    auto step = [&](auto x) { return compute_of(node) == DType::kF16 ? cast(cast(x, DType::kF16), x.dtype()) : x; };
    return step(g * step(y.like(1) - y)) * y;
  }
};

struct TanhBackward : Gradient<2> {
  static constexpr std::string_view name = "tanh_backward", aten = "aten.tanh_backward.default",
                                    doc = "gradient of tanh from its result";
  static constexpr int ulps = 0, cost = 3;
  static auto body(auto g, auto y) { return g * fma(-y, y, y.like(1)); }
};

struct ThresholdBackward : Gradient<2> {
  static constexpr std::string_view name = "threshold_backward", aten = "aten.threshold_backward.default",
                                    doc = "the gradient where x is above `threshold` (or NaN), else 0";
  static constexpr int ulps = 0, cost = 2;
  static Attributes attributes(const AtenCall &call) { return {{"threshold", call.number(2)}}; }
  static auto body(auto g, auto x, const graph::Node &node) {
    return select(x <= x.like(number_attribute(node, "threshold")), g.like(0), g);
  }
};

struct HardtanhBackward : Gradient<2> {
  static constexpr std::string_view name = "hardtanh_backward", aten = "aten.hardtanh_backward.default",
                                    doc = "the gradient inside (min, max), else 0";
  static constexpr int ulps = 0, cost = 3;
  static Attributes attributes(const AtenCall &call) { return {{"min", call.number(2)}, {"max", call.number(3)}}; }
  static auto body(auto g, auto x, const graph::Node &node) {
    auto low = x.like(number_attribute(node, "min")), high = x.like(number_attribute(node, "max"));
    return select(x > low && x < high, g, g.like(0));
  }
};

struct LeakyReluBackward : Gradient<2> {
  static constexpr std::string_view name = "leaky_relu_backward", aten = "aten.leaky_relu_backward.default",
                                    doc = "gradient of leaky_relu";
  static constexpr int ulps = 0, cost = 3;
  static Attributes attributes(const AtenCall &call) { return {{"negative_slope", call.number(2)}}; }
  static auto body(auto g, auto x, const graph::Node &node) {
    return select(x > x.like(0), g, g * g.like(number_attribute(node, "negative_slope")));
  }
};

struct EluBackward : Gradient<2> {
  static constexpr std::string_view name = "elu_backward",
                                    doc = "gradient of elu from its argument or, `is_result`, its result";
  static auto body(auto g, auto x, const graph::Node &node) {
    double alpha = number_attribute(node, "alpha"), scale = number_attribute(node, "scale"),
           input_scale = number_attribute(node, "input_scale");
    auto positive = g * x.like(scale);
    auto negative = node.get<bool>("is_result")
                        ? g * x.like(input_scale) * (x + x.like(alpha * scale))
                        : g * x.like(input_scale * alpha * scale) * exp(x * x.like(input_scale));
    return select(x <= x.like(0), negative, positive);
  }
};

struct SoftplusBackward : Gradient<2> {
  static constexpr std::string_view name = "softplus_backward", aten = "aten.softplus_backward.default",
                                    doc = "gradient of softplus";
  static Attributes attributes(const AtenCall &call) {
    return {{"beta", call.number(2)}, {"threshold", call.number(3)}};
  }
  static auto body(auto g, auto x, const graph::Node &node) {
    auto beta = x.like(number_attribute(node, "beta"));
    auto z = exp(x * beta);
    return select(x * beta > x.like(number_attribute(node, "threshold")), g, g * z / (z + z.like(1)));
  }
};

struct LogSigmoidBackward : Gradient<2> {
  static constexpr std::string_view name = "log_sigmoid_backward", doc = "gradient of log_sigmoid";
  static auto body(auto g, auto x) {
    auto zero = x.like(0), one = x.like(1);
    auto z = exp(-abs(x));
    auto is_negative = x < zero;
    return g * (select(is_negative, one, zero) - select(is_negative, one, -one) * (z / (one + z)));
  }
};

struct HardsigmoidBackward : Gradient<2> {
  static constexpr std::string_view name = "hardsigmoid_backward", aten = "aten.hardsigmoid_backward.default",
                                    doc = "gradient of hardsigmoid";
  static constexpr int ulps = 1, cost = 4;
  static auto body(auto g, auto x) {
    return select(x > x.like(-3) && x < x.like(3), g * x.like(1.0f / 6.0f), g.like(0));
  }
};

struct HardswishBackward : Gradient<2> {
  static constexpr std::string_view name = "hardswish_backward", aten = "aten.hardswish_backward.default",
                                    doc = "gradient of hardswish";
  static constexpr int ulps = 1, cost = 6;
  static auto body(auto g, auto x) {
    auto three = x.like(3);
    auto inside = g * ((x / three) + x.like(0.5));
    return select(x <= -three, g.like(0), select(x >= three, g, inside));
  }
};

struct ShrinkBackward : Gradient<2> {
  static constexpr std::string_view name = "shrink_backward",
                                    aten = "aten.hardshrink_backward.default aten.softshrink_backward.default",
                                    doc = "0 where x is in [-lambda, lambda], else the gradient";
  static constexpr int ulps = 0, cost = 3;
  static Attributes attributes(const AtenCall &call) { return {{"lambda", call.number(2)}}; }
  static auto body(auto g, auto x, const graph::Node &node) {
    auto bound = x.like(number_attribute(node, "lambda"));
    return select(x >= -bound && x <= bound, g.like(0), g);
  }
};

struct MishBackward : Gradient<2> {
  static constexpr std::string_view name = "mish_backward", aten = "aten.mish_backward.default",
                                    doc = "gradient of mish";
  static constexpr int cost = 60;
  static auto body(auto g, auto x) {
    auto s = sigmoid_of(x);
    auto t = tanh(log1p(exp(x)));
    return g * (t + x * s * (x.like(1) - t * t));
  }
};

struct LogitBackward : Gradient<2> {
  static constexpr std::string_view name = "logit_backward", aten = "aten.logit_backward.default",
                                    doc = "gradient of logit";
  static constexpr int ulps = 1, cost = 8;
  static Attributes attributes(const AtenCall &call) {
    return call.has(2) ? Attributes{{"eps", call.number(2)}} : Attributes{};
  }
  static auto body(auto g, auto x, const graph::Node &node) {
    auto zero = x.like(0), one = x.like(1);
    auto slope = g / (x * (one - x));
    if (!node.has("eps"))
      return select(x < zero || x > one, x.like(__builtin_nan("")),
                    select(eq(x, zero) || eq(x, one), g * x.like(__builtin_inf()), slope));
    auto low = x.like(number_attribute(node, "eps"));
    return select(x < low || x > one - low, zero, slope);
  }
};

using Table = PointwiseTable<GeluBackward, SiluBackward, SigmoidBackward, TanhBackward, ThresholdBackward,
                             HardtanhBackward, LeakyReluBackward, EluBackward, SoftplusBackward, LogSigmoidBackward,
                             HardsigmoidBackward, HardswishBackward, ShrinkBackward, MishBackward, LogitBackward>;

} // namespace

OpTable pointwise_gradient() { return Table::table(); }

} // namespace oxyfuel
