// Resampling (upsample_*): separable, one axis after the other. Each element of an axis is a weighted sum of a few
// source elements (ATen/native/UpSample.h has the formulas); the gradient multiplies by the matrix of these weights,
// and so does the antialiased form, whose sums are long.
#include "ops/compose.h"
#include "ops/table.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

enum class Mode { kNearest, kNearestExact, kLinear, kCubic, kLinearAntialias, kCubicAntialias };

struct Axis {
  Expr in, out;
  bool align_corners = false;
  std::optional<double> scale; ///< as the user gives it: out / in
};

/// One tap: source places and weights for each element of the result, both [out].
struct Tap {
  Term place, weight;
};

Term size_term(GraphBuilder &b, Expr size, DType dtype) { return {&b, b.scalar_size(size, dtype)}; }

/// Source elements a step of one in the result, rank 0.
Term ratio(GraphBuilder &b, const Axis &axis, DType dtype) {
  if (axis.align_corners) {
    auto out = axis.out.constant();
    if (out && *out <= 1)
      return {&b, b.scalar(0, dtype)};
    return size_term(b, axis.in - 1, dtype) / size_term(b, axis.out - 1, dtype);
  }
  if (axis.scale && *axis.scale > 0)
    return {&b, b.scalar(1 / *axis.scale, dtype)};
  return size_term(b, axis.in, dtype) / size_term(b, axis.out, dtype);
}

/// The exact source coordinate of each element.
Term coordinate(GraphBuilder &b, const Axis &axis, DType dtype) {
  Term at = numbers(b, axis.out, 1, 0).to(dtype), step = ratio(b, axis, dtype);
  return axis.align_corners ? at * step : (at + 0.5) * step - 0.5;
}

Term limited(Term place, GraphBuilder &b, Expr size) {
  return combine("minimum", combine("maximum", place, place.like(0)), size_term(b, size - 1, DType::kI64));
}

std::vector<Tap> nearest_taps(GraphBuilder &b, const Axis &axis, bool is_exact, DType dtype) {
  // Eager finds nearest places in float32 whatever the type of the values.
  Term at = numbers(b, axis.out, 1, 0).to(DType::kF32);
  Term place = (is_exact ? at + 0.5 : at) * ratio(b, axis, DType::kF32);
  return {{limited(place.apply("floor").to(DType::kI64), b, axis.in), full(b, {axis.out}, 1, dtype)}};
}

std::vector<Tap> linear_taps(GraphBuilder &b, const Axis &axis, DType dtype) {
  Term at = coordinate(b, axis, dtype);
  at = combine("maximum", at, at.like(0));
  Term low = limited(at.apply("floor").to(DType::kI64), b, axis.in), high = limited(low + 1, b, axis.in);
  Term part = at - low.to(dtype);
  part = combine("minimum", combine("maximum", part, part.like(0)), part.like(1));
  return {{low, part.like(1) - part}, {high, part}};
}

/// Keys' cubic with A = -0.75 at distance x: in [0, 1] and in [1, 2].
Term cubic_near(Term x) { return ((x * 1.25 - 2.25) * x * x) + 1; }
Term cubic_far(Term x) { return ((x * -0.75 + 3.75) * x - 6) * x + 3; }

std::vector<Tap> cubic_taps(GraphBuilder &b, const Axis &axis, DType dtype) {
  Term at = coordinate(b, axis, dtype), base = at.apply("floor"), t = at - base;
  Term first = base.to(DType::kI64) - 1;
  Term weights[4] = {cubic_far(t + 1), cubic_near(t), cubic_near(t.like(1) - t), cubic_far(t.like(2) - t)};
  std::vector<Tap> taps;
  for (int i = 0; i < 4; ++i)
    taps.push_back({limited(first + double(i), b, axis.in), weights[i]});
  return taps;
}

/// Weights [out, in] of a filter as wide as the ratio, normalised; cubic with A = -0.5 as in PIL.
Term antialias_matrix(GraphBuilder &b, const Axis &axis, bool is_cubic, DType dtype) {
  Term scale = ratio(b, axis, dtype);
  Term width = combine("maximum", scale, scale.like(1)), support = width * (is_cubic ? 2.0 : 1.0);
  Term center = scale * (numbers(b, axis.out, 2, 0).to(dtype) + 0.5);
  Term first = combine("maximum", (center - support + 0.5).apply("trunc"), center.like(0));
  Term last = combine("minimum", (center + support + 0.5).apply("trunc"), size_term(b, axis.in, dtype));
  Term place = numbers(b, axis.in, 2, 1).to(dtype);
  Term x = ((place - center + 0.5) / width).apply("abs");
  Term weight;
  if (is_cubic) {
    Term close = (x * 1.5 - 2.5) * x * x + 1, away = ((x * -0.5 + 2.5) * x - 4) * x + 2;
    weight = choose(x < x.like(1), close, choose(x < x.like(2), away, x.like(0)));
  } else {
    weight = choose(x < x.like(1), x.like(1) - x, x.like(0));
  }
  weight = choose(both(place >= first, place < last), weight, weight.like(0));
  return weight / weight.sum({1}, true);
}

std::vector<Tap> taps_of(GraphBuilder &b, const Axis &axis, Mode mode, DType dtype) {
  if (mode == Mode::kLinear)
    return linear_taps(b, axis, dtype);
  if (mode == Mode::kCubic)
    return cubic_taps(b, axis, dtype);
  return nearest_taps(b, axis, mode == Mode::kNearestExact, dtype);
}

bool is_antialias(Mode mode) { return mode == Mode::kLinearAntialias || mode == Mode::kCubicAntialias; }

/// The weight of source element i in result element o, [out, in].
Term matrix(GraphBuilder &b, const Axis &axis, Mode mode, DType dtype) {
  if (is_antialias(mode))
    return antialias_matrix(b, axis, mode == Mode::kCubicAntialias, dtype);
  Term source = numbers(b, axis.in, 2, 1), sum;
  for (const Tap &tap : taps_of(b, axis, mode, dtype)) {
    Term weight = tap.weight.unsqueeze(1);
    Term own = choose(equal(tap.place.unsqueeze(1), source), weight, weight.like(0));
    sum = sum ? sum + own : own;
  }
  return sum;
}

/// x times m [k, n] along an axis of size k.
Term multiply_along(Term x, int axis, Term m) {
  std::vector<int64_t> dims = all_axes(x.rank());
  std::swap(dims[axis], dims.back());
  Term moved = x.permute(dims);
  Shape shape = moved.shape(), rows(shape.begin(), shape.end() - 1);
  Term flat = moved.reshape({graph::element_count(x.context(), rows), shape.back()});
  rows.push_back(m.size(1));
  return Term{x.b, x.b->matmul(flat.value, m.value, x.dtype())}.reshape(rows).permute(dims);
}

Term resample(GraphBuilder &b, Term x, int place, const Axis &axis, Mode mode) {
  if (is_antialias(mode))
    return multiply_along(x, place, matrix(b, axis, mode, x.dtype()).transpose());
  Term sum;
  Shape shape(x.rank(), b.context().integer(1));
  shape[place] = axis.out;
  bool is_nearest = mode == Mode::kNearest || mode == Mode::kNearestExact;
  for (const Tap &tap : taps_of(b, axis, mode, x.dtype())) {
    Term found = {&b,
                  b.make("index_select", {x.value, tap.place.value}, {{"axis", int64_t(place)}, {"unchecked", true}})};
    if (is_nearest)
      return found;
    Term part = found * tap.weight.reshape(shape);
    sum = sum ? sum + part : part;
  }
  return sum;
}

Term resample_gradient(GraphBuilder &b, Term g, int place, const Axis &axis, Mode mode) {
  auto in = axis.in.constant(), out = axis.out.constant();
  bool is_nearest = mode == Mode::kNearest || mode == Mode::kNearestExact;
  // A whole factor: each source element is read by a run of equal length.
  if (is_nearest && in && out && *in > 0 && *out % *in == 0 && (!axis.scale || *axis.scale == double(*out / *in))) {
    Shape shape = g.shape();
    shape[place] = axis.in;
    shape.insert(shape.begin() + place + 1, b.context().integer(*out / *in));
    return g.reshape(shape).sum({place + 1}, false);
  }
  return multiply_along(g, place, matrix(b, axis, mode, g.dtype()));
}

/// upsample_<mode><n>d(x, output_size, [align_corners], scales…), its .vec form (x, output_size, [align_corners], scale
/// factors), and _backward(g, output_size, input_size, [align_corners], scales…).
Values import_resize(GraphBuilder &b, const AtenCall &call) {
  const std::string &name = call.overload;
  auto has = [&](const char *part) { return name.find(part) != std::string::npos; };
  bool is_backward = has("_backward"), is_vector = has(".vec");
  bool is_linear = has("linear"), is_cubic = has("bicubic"), is_aa = has("_aa");
  Mode mode = is_cubic       ? (is_aa ? Mode::kCubicAntialias : Mode::kCubic)
              : is_linear    ? (is_aa ? Mode::kLinearAntialias : Mode::kLinear)
              : has("exact") ? Mode::kNearestExact
                             : Mode::kNearest;
  int spatial = has("1d") ? 1 : has("2d") ? 2 : 3;
  int next = is_backward ? 3 : 2;
  bool align = false;
  if (is_linear || is_cubic)
    align = call.boolean(next++);
  Term x = wide(b, call.value(0));
  if (!is_float(x.dtype()) && mode != Mode::kNearest && mode != Mode::kNearestExact)
    throw UnsupportedError(name + " of integers");
  const Shape &result = call.results.at(0).shape;
  int rank = x.rank();
  std::vector<AtenArgument> factors;
  if (is_vector && call.has(next))
    factors = std::get<std::vector<AtenArgument>>(call.arguments.at(next).data);
  // The last axis first, as eager's separable kernels.
  for (int i = spatial; i-- > 0;) {
    int place = rank - spatial + i;
    Axis axis{is_backward ? result[place] : x.size(place), is_backward ? x.size(place) : result[place], align, {}};
    if (!factors.empty())
      axis.scale = std::get<double>(factors.at(i).data);
    else if (!is_vector && call.has(next + i))
      axis.scale = call.number(next + i);
    x = is_backward ? resample_gradient(b, x, place, axis, mode) : resample(b, x, place, axis, mode);
  }
  return {x.to(call.results[0].dtype).value};
}

constexpr AtenRule kRules[] = {
    {"aten.upsample_nearest1d.default aten.upsample_nearest2d.default aten.upsample_nearest3d.default "
     "aten._upsample_nearest_exact1d.default aten._upsample_nearest_exact2d.default "
     "aten._upsample_nearest_exact3d.default "
     "aten.upsample_linear1d.default aten.upsample_bilinear2d.default aten.upsample_trilinear3d.default "
     "aten.upsample_bicubic2d.default aten._upsample_bilinear2d_aa.default aten._upsample_bicubic2d_aa.default "
     "aten.upsample_nearest1d.vec aten.upsample_nearest2d.vec aten.upsample_nearest3d.vec "
     "aten._upsample_nearest_exact1d.vec aten._upsample_nearest_exact2d.vec aten._upsample_nearest_exact3d.vec "
     "aten.upsample_linear1d.vec aten.upsample_bilinear2d.vec aten.upsample_trilinear3d.vec "
     "aten.upsample_bicubic2d.vec "
     "aten._upsample_bilinear2d_aa.vec aten._upsample_bicubic2d_aa.vec "
     "aten.upsample_nearest1d_backward.default aten.upsample_nearest2d_backward.default "
     "aten.upsample_nearest3d_backward.default aten._upsample_nearest_exact1d_backward.default "
     "aten._upsample_nearest_exact2d_backward.default aten._upsample_nearest_exact3d_backward.default "
     "aten.upsample_linear1d_backward.default aten.upsample_bilinear2d_backward.default "
     "aten.upsample_trilinear3d_backward.default aten.upsample_bicubic2d_backward.default "
     "aten._upsample_bilinear2d_aa_backward.default aten._upsample_bicubic2d_aa_backward.default",
     import_resize},
};

} // namespace

OpTable aten_resize() { return {{}, kRules}; }

} // namespace oxyfuel
