// Activation functions. Constants follow ATen/native/cpu/Activation.cpp.
#include <cmath>

#include "ops/activation.h"
#include "ops/pointwise.h"

namespace oxyfuel {

namespace {

template <int N> struct Activation : Pointwise<N> {
  static constexpr DTypeRule dtype = DTypeRule::kFloat;
  static constexpr int ulps = 4, cost = 20;
};

struct Relu : Pointwise<1> {
  static constexpr std::string_view name = "relu", aten = "aten.relu.default",
                                    doc = "0 where x is negative, else x: -0 and NaN stay";
  static auto body(auto x) { return is_bool(x.dtype()) ? x : select(x < x.like(0), x.like(0), x); }
};

struct Sigmoid : Activation<1> {
  static constexpr std::string_view name = "sigmoid", aten = "aten.sigmoid.default aten.special_expit.default",
                                    doc = "1 / (1 + exp(-x))";
  static auto body(auto x) { return sigmoid_of(x); }
};

struct Silu : Activation<1> {
  static constexpr std::string_view name = "silu", aten = "aten.silu.default",
                                    doc = "x * sigmoid(x), also called swish";
  static auto body(auto x) { return x / (x.like(1) + exp(-x)); }
};

struct Gelu : Activation<1> {
  static constexpr std::string_view name = "gelu", aten = "aten.gelu.default",
                                    doc =
                                        "x times the normal distribution function, by erf or by its tanh approximation";
  static Attributes attributes(const AtenCall &call) {
    return {{"approximate", call.has(1) ? call.text(1) : std::string("none")}};
  }
  static auto body(auto x, const graph::Node &node) {
    auto half = x.like(0.5), one = x.like(1);
    if (node.get<std::string>("approximate") == "tanh")
      return half * x * (one + tanh(gelu_tanh_argument(x)));
    return x * half * (one + erf(x * x.like(M_SQRT1_2)));
  }
};

struct LogSigmoid : Activation<1> {
  static constexpr std::string_view name = "log_sigmoid", doc = "log(sigmoid(x)), accurate on both sides";
  static auto body(auto x) {
    auto zero = x.like(0);
    return select(x < zero, x, select(ne(x, x), x, zero)) - log1p(exp(-abs(x)));
  }
};

struct Softplus : Activation<1> {
  static constexpr std::string_view name = "softplus", aten = "aten.softplus.default",
                                    doc = "log(1 + exp(beta x)) / beta, x itself above `threshold`";
  static Attributes attributes(const AtenCall &call) {
    return {{"beta", call.has(1) ? call.number(1) : 1.0}, {"threshold", call.has(2) ? call.number(2) : 20.0}};
  }
  static auto body(auto x, const graph::Node &node) {
    auto beta = x.like(number_attribute(node, "beta"));
    return select(x * beta > x.like(number_attribute(node, "threshold")), x, log1p(exp(x * beta)) / beta);
  }
};

struct Elu : Activation<1> {
  static constexpr std::string_view name = "elu", aten = "aten.elu.default",
                                    doc = "scale * x where x > 0, else scale * alpha * expm1(input_scale * x)";
  static Attributes attributes(const AtenCall &call) {
    auto number = [&](int i) { return call.has(i) ? call.number(i) : 1.0; };
    return {{"alpha", number(1)}, {"scale", number(2)}, {"input_scale", number(3)}};
  }
  static auto body(auto x, const graph::Node &node) {
    double scale = number_attribute(node, "scale");
    auto negative =
        expm1(x * x.like(number_attribute(node, "input_scale"))) * x.like(number_attribute(node, "alpha") * scale);
    return select(x <= x.like(0), negative, x * x.like(scale));
  }
};

struct Celu : Activation<1> {
  static constexpr std::string_view name = "celu", aten = "aten.celu.default",
                                    doc = "elu with alpha in the exponent too";
  static Attributes attributes(const AtenCall &call) { return {{"alpha", call.has(1) ? call.number(1) : 1.0}}; }
  static auto body(auto x, const graph::Node &node) {
    double alpha = number_attribute(node, "alpha");
    return select(x <= x.like(0), expm1(x * x.like(1 / alpha)) * x.like(alpha), x);
  }
};

struct Selu : Activation<1> {
  static constexpr std::string_view name = "selu", aten = "aten.selu.default",
                                    doc = "elu with the self-normalising constants";
  static auto body(auto x) {
    constexpr double kAlpha = 1.6732632423543772848170429916717, kScale = 1.0507009873554804934193349852946;
    return select(x <= x.like(0), expm1(x) * x.like(kAlpha * kScale), x * x.like(kScale));
  }
};

struct LeakyRelu : Activation<1> {
  static constexpr std::string_view name = "leaky_relu", aten = "aten.leaky_relu.default",
                                    doc = "x where positive, else x * negative_slope";
  static constexpr int ulps = 0, cost = 2;
  static Attributes attributes(const AtenCall &call) {
    return {{"negative_slope", call.has(1) ? call.number(1) : 0.01}};
  }
  static auto body(auto x, const graph::Node &node) {
    return select(x > x.like(0), x, x * x.like(number_attribute(node, "negative_slope")));
  }
};

struct Prelu : Activation<2> {
  static constexpr std::string_view name = "prelu", aten = "aten._prelu_kernel.default",
                                    doc = "x where positive, else x * weight";
  static constexpr int ulps = 0, cost = 2;
  static auto body(auto x, auto weight) { return select(x > x.like(0), x, x * weight); }
};

struct Hardtanh : Pointwise<1> {
  static constexpr std::string_view name = "hardtanh", aten = "aten.hardtanh.default", doc = "x kept in [min, max]";
  static Attributes attributes(const AtenCall &call) {
    return {{"min", call.has(1) ? call.number(1) : -1.0}, {"max", call.has(2) ? call.number(2) : 1.0}};
  }
  static auto body(auto x, const graph::Node &node) {
    auto low = x.like(number_attribute(node, "min")), high = x.like(number_attribute(node, "max"));
    return select(x < low, low, select(x > high, high, x));
  }
};

struct Relu6 : Pointwise<1> {
  static constexpr std::string_view name = "relu6", aten = "aten.relu6.default", doc = "x kept in [0, 6]";
  static auto body(auto x) {
    auto low = x.like(0), high = x.like(6);
    return select(x < low, low, select(x > high, high, x));
  }
};

struct Hardsigmoid : Activation<1> {
  static constexpr std::string_view name = "hardsigmoid", aten = "aten.hardsigmoid.default",
                                    doc = "(x + 3) kept in [0, 6], divided by 6";
  static constexpr int ulps = 1, cost = 6;
  static auto body(auto x) { return keep_in_0_6(x + x.like(3)) / x.like(6); }
};

struct Hardswish : Activation<1> {
  static constexpr std::string_view name = "hardswish", aten = "aten.hardswish.default", doc = "x * hardsigmoid(x)";
  static constexpr int ulps = 1, cost = 7;
  static auto body(auto x) { return x * keep_in_0_6(x + x.like(3)) / x.like(6); }
};

struct Hardshrink : Pointwise<1> {
  static constexpr std::string_view name = "hardshrink", aten = "aten.hardshrink.default",
                                    doc = "0 in [-lambda, lambda], else x";
  static Attributes attributes(const AtenCall &call) { return {{"lambda", call.has(1) ? call.number(1) : 0.5}}; }
  static auto body(auto x, const graph::Node &node) {
    auto bound = x.like(number_attribute(node, "lambda"));
    return select(x >= -bound && x <= bound, x.like(0), x);
  }
};

struct Softshrink : Pointwise<1> {
  static constexpr std::string_view name = "softshrink", aten = "aten.softshrink.default",
                                    doc = "x moved towards 0 by lambda; 0 in between, NaN stays";
  static Attributes attributes(const AtenCall &call) { return {{"lambda", call.has(1) ? call.number(1) : 0.5}}; }
  static auto body(auto x, const graph::Node &node) {
    auto bound = x.like(number_attribute(node, "lambda"));
    return select(x > bound, x - bound, select(x < -bound, x + bound, select(ne(x, x), x, x.like(0))));
  }
};

struct Threshold : Pointwise<1> {
  static constexpr std::string_view name = "threshold", aten = "aten.threshold.default",
                                    doc = "x where above `threshold`, else `value`";
  static Attributes attributes(const AtenCall &call) {
    return {{"threshold", call.number(1)}, {"value", call.number(2)}};
  }
  static auto body(auto x, const graph::Node &node) {
    return select(x <= x.like(number_attribute(node, "threshold")), x.like(number_attribute(node, "value")), x);
  }
};

struct Mish : Activation<1> {
  static constexpr std::string_view name = "mish", aten = "aten.mish.default", doc = "x * tanh(softplus(x))";
  static constexpr int cost = 40;
  static auto body(auto x) { return x * tanh(log1p(exp(x))); }
};

using Table = PointwiseTable<Relu, Sigmoid, Silu, Gelu, LogSigmoid, Softplus, Elu, Celu, Selu, LeakyRelu, Prelu,
                             Hardtanh, Relu6, Hardsigmoid, Hardswish, Hardshrink, Softshrink, Threshold, Mish>;

} // namespace

OpTable pointwise_activation() { return Table::table(); }

} // namespace oxyfuel
