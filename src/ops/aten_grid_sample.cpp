// Sampling at places that a grid gives (grid_sampler_2d, grid_sampler_3d) and the gradients of the two-dimensional
// form. Coordinates in [-1, 1] are mapped to elements as in ATen/native/GridSampler.h.
#include "ops/compose.h"
#include "ops/table.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

enum Interpolation : int64_t { kBilinear = 0, kNearest = 1, kBicubic = 2 };
enum Padding : int64_t { kZeros = 0, kBorder = 1, kReflection = 2 };

struct Sampling {
  int64_t interpolation = kBilinear, padding = kZeros;
  bool align_corners = false;
};

/// One axis of the input: its size as a number, and its size.
struct Extent {
  Expr size;
  Term length; ///< of the coordinates' type
};

Extent extent_of(GraphBuilder &b, Expr size, DType dtype) { return {size, {&b, b.scalar_size(size, dtype)}}; }

/// A coordinate in elements, and its derivative by the grid's.
struct Coordinate {
  Term at, slope;
};

Coordinate unnormalise(Term x, const Extent &extent, bool align_corners) {
  Term one = x.like(1);
  Coordinate c;
  if (align_corners) {
    c.slope = (extent.length - 1) / 2;
    c.at = (x + 1) / 2 * (extent.length - 1);
  } else {
    c.slope = extent.length / 2;
    c.at = ((x + 1) * extent.length - one) / 2;
  }
  return c;
}

Coordinate clip(Coordinate c, const Extent &extent) {
  Term zero = c.at.like(0), last = extent.length - 1;
  Term is_outside = either(c.at <= zero, c.at >= last);
  return {combine("minimum", combine("maximum", c.at, zero), last),
          choose(is_outside, zero, c.slope.expand(c.at.shape()))};
}

/// Mirrored at the centres of the edge elements (align_corners) or at their outer sides.
Coordinate reflect(Coordinate c, const Extent &extent, bool align_corners) {
  double low = align_corners ? 0 : -0.5;
  Term span = align_corners ? extent.length - 1 : extent.length;
  Term from_low = c.at - low, distance = from_low.apply("abs");
  Term flips = (distance / span).apply("floor"), extra = combine("fmod", distance, span);
  Term is_even = equal(combine("remainder", flips, flips.like(2)), flips.like(0));
  Term sign = choose(from_low < from_low.like(0), from_low.like(-1), from_low.like(1));
  Term slope = c.slope * sign;
  Coordinate result{choose(is_even, extra, span - extra) + low, choose(is_even, slope, -slope)};
  Term is_point = equal(span, span.like(0));
  return {choose(is_point, result.at.like(0), result.at), choose(is_point, result.slope.like(0), result.slope)};
}

Coordinate pad(Coordinate c, const Extent &extent, const Sampling &sampling) {
  if (sampling.padding == kBorder)
    return clip(c, extent);
  if (sampling.padding == kReflection)
    return clip(reflect(c, extent, sampling.align_corners), extent);
  return c;
}

/// Whole coordinates as places: inside [0, size), and whether they were.
struct Place {
  Term index, is_inside;
};

Place place_of(Term whole, const Extent &extent) {
  Term last = extent.length - 1, zero = whole.like(0);
  Term limited = combine("minimum", combine("maximum", whole, zero), last);
  return {limited.to(DType::kI64), both(whole >= zero, whole <= last)};
}

/// The input [N, C, D, H, W] or [N, C, H, W], read at places [N, …].
struct Source {
  Term x;
  Term batch; ///< numbers of the images, as an index

  /// Elements [N, C, …] at one place an axis, zeros outside.
  Term read(const std::vector<Place> &places) const {
    GraphBuilder &b = *x.b;
    Values operands{x.value, batch.value, nullptr};
    Term inside;
    for (const Place &place : places) {
      operands.push_back(place.index.value);
      inside = inside ? both(inside, place.is_inside) : place.is_inside;
    }
    Term found = {&b, b.make("index", operands, {{"unchecked", true}})}; // [N, …, C]
    std::vector<int64_t> dims{0, found.rank() - 1};
    for (int axis = 1; axis + 1 < found.rank(); ++axis)
      dims.push_back(axis);
    return choose(inside.unsqueeze(1), found.permute(dims), found.like(0));
  }
};

Source source_of(GraphBuilder &b, Term x) { return {x, numbers(b, x.size(0), x.rank() - 1, 0)}; }

/// Coordinate `i` of the grid [N, …, axes]: 0 is x, along the last axis of the input.
Term grid_coordinate(Term grid, int i) { return grid.select(grid.rank() - 1, grid.context().integer(i)); }

/// Keys' cubic with A = -0.75: weights of the four elements around, for the distance t from the second.
std::vector<Term> cubic_weights(Term t) {
  auto close = [](Term x) { return ((x * 1.25 - 2.25) * x * x) + 1; };
  auto away = [](Term x) { return ((x * -0.75 + 3.75) * x - 6) * x + 3; };
  return {away(t + 1), close(t), close(t.like(1) - t), away(t.like(2) - t)};
}

Term bicubic(Term grid, const Source &source, const std::vector<Extent> &extents, const Sampling &sampling) {
  Term base[2], weights[2][4];
  for (int axis = 0; axis < 2; ++axis) {
    Term at = unnormalise(grid_coordinate(grid, 1 - axis), extents[axis], sampling.align_corners).at;
    base[axis] = at.apply("floor");
    std::vector<Term> all = cubic_weights(at - base[axis]);
    std::copy(all.begin(), all.end(), weights[axis]);
  }
  auto place = [&](int axis, int i) {
    Term whole = base[axis] + double(i - 1);
    return place_of(pad({whole, whole.like(1)}, extents[axis], sampling).at, extents[axis]);
  };
  Term sum;
  for (int row = 0; row < 4; ++row) {
    Term line;
    for (int column = 0; column < 4; ++column) {
      Term part = source.read({place(0, row), place(1, column)}) * weights[1][column].unsqueeze(1);
      line = line ? line + part : part;
    }
    line = line * weights[0][row].unsqueeze(1);
    sum = sum ? sum + line : line;
  }
  return sum;
}

/// An element next to the coordinate along each axis, and its weight.
struct Corner {
  std::vector<Place> places;
  std::vector<Term> weights; ///< one an axis
  Term weight;               ///< their product
  std::vector<bool> is_high; ///< the element above the coordinate, one an axis
};

std::vector<Corner> corners_of(const std::vector<Coordinate> &at, const std::vector<Extent> &extents) {
  size_t axes = at.size();
  std::vector<Term> low;
  for (const Coordinate &c : at)
    low.push_back(c.at.apply("floor"));
  std::vector<Corner> corners(size_t(1) << axes);
  for (size_t i = 0; i < corners.size(); ++i)
    for (size_t axis = 0; axis < axes; ++axis) {
      bool is_high = i >> (axes - 1 - axis) & 1;
      Term weight = is_high ? at[axis].at - low[axis] : low[axis] + 1 - at[axis].at;
      Corner &corner = corners[i];
      corner.places.push_back(place_of(is_high ? low[axis] + 1 : low[axis], extents[axis]));
      corner.weights.push_back(weight);
      corner.weight = corner.weight ? corner.weight * weight : weight;
      corner.is_high.push_back(is_high);
    }
  return corners;
}

struct Problem {
  Term grid;
  Source source;
  std::vector<Extent> extents;
  std::vector<Coordinate> at;
  Sampling sampling;
};

/// Arguments from `first`: input, grid, interpolation, padding, align_corners.
Problem problem_of(GraphBuilder &b, const AtenCall &call, int first) {
  Problem p;
  Term x = wide(b, call.value(first));
  p.grid = term(b, call.value(first + 1)).to(x.dtype());
  p.source = source_of(b, x);
  p.sampling = {call.integer(first + 2), call.integer(first + 3), call.boolean(first + 4)};
  int axes = x.rank() - 2;
  for (int axis = 0; axis < axes; ++axis) {
    p.extents.push_back(extent_of(b, x.size(axis + 2), x.dtype()));
    Term own = grid_coordinate(p.grid, axes - 1 - axis);
    p.at.push_back(pad(unnormalise(own, p.extents[axis], p.sampling.align_corners), p.extents[axis], p.sampling));
  }
  return p;
}

/// grid_sampler_<n>d(x, grid, interpolation, padding, align_corners)
Values import_grid_sampler(GraphBuilder &b, const AtenCall &call) {
  Problem p = problem_of(b, call, 0);
  Term out;
  if (p.sampling.interpolation == kNearest) {
    std::vector<Place> places;
    for (size_t axis = 0; axis < p.at.size(); ++axis)
      places.push_back(place_of(p.at[axis].at.apply("round"), p.extents[axis]));
    out = p.source.read(places);
  } else if (p.sampling.interpolation == kBicubic) {
    out = bicubic(p.grid, p.source, p.extents, p.sampling);
  } else {
    for (const Corner &corner : corners_of(p.at, p.extents)) {
      Term part = p.source.read(corner.places) * corner.weight.unsqueeze(1);
      out = out ? out + part : part;
    }
  }
  return {out.to(call.results.at(0).dtype).value};
}

/// [N, C, …] → [N, …, C]
Term channels_last(Term x) {
  std::vector<int64_t> dims{0};
  for (int axis = 2; axis < x.rank(); ++axis)
    dims.push_back(axis);
  dims.push_back(1);
  return x.permute(dims);
}

/// Adds g * weight, zero outside, at the places of a corner.
Term add_at(GraphBuilder &b, Term sum, Term g, const Problem &p, const std::vector<Place> &places, Term weight) {
  Term part = weight ? g * weight.unsqueeze(1) : g, inside;
  Values operands{sum.value, nullptr, p.source.batch.value, nullptr};
  for (const Place &place : places) {
    operands.push_back(place.index.value);
    inside = inside ? both(inside, place.is_inside) : place.is_inside;
  }
  operands[1] = channels_last(choose(inside.unsqueeze(1), part, part.like(0))).value;
  return {&b, b.make("index_put", operands, {{"accumulate", true}})};
}

/// grid_sampler_2d_backward(g, x, grid, interpolation, padding, align_corners, output_mask) → dx, dgrid
Values import_grid_sampler_backward(GraphBuilder &b, const AtenCall &call) {
  Problem p = problem_of(b, call, 1);
  if (p.sampling.interpolation == kBicubic)
    throw UnsupportedError(call.overload + " of bicubic samples");
  Term g = wide(b, call.value(0)), gradient = full(b, p.source.x.shape(), 0, g.dtype());
  std::vector<int64_t> mask = call.integers(6);
  Values results(2);
  std::vector<Term> slopes(p.at.size());
  if (p.sampling.interpolation == kNearest) {
    std::vector<Place> places;
    for (size_t axis = 0; axis < p.at.size(); ++axis)
      places.push_back(place_of(p.at[axis].at.apply("round"), p.extents[axis]));
    gradient = add_at(b, gradient, g, p, places, {});
    results[1] = full(b, call.results.at(1).shape, 0, call.results[1].dtype).value;
  } else {
    for (const Corner &corner : corners_of(p.at, p.extents)) {
      gradient = add_at(b, gradient, g, p, corner.places, corner.weight);
      Term dot = (g * p.source.read(corner.places)).sum({1}, false);
      for (size_t axis = 0; axis < slopes.size(); ++axis) {
        Term part = dot;
        for (size_t other = 0; other < slopes.size(); ++other)
          part = other == axis ? part : part * corner.weights[other];
        part = corner.is_high[axis] ? part : -part;
        slopes[axis] = slopes[axis] ? slopes[axis] + part : part;
      }
    }
    Values parts;
    for (size_t axis = slopes.size(); axis-- > 0;) {
      Term own = slopes[axis] * p.at[axis].slope;
      parts.push_back(own.unsqueeze(own.rank()).value);
    }
    Term joined = {&b, b.make("concat", parts, {{"axis", int64_t(p.grid.rank() - 1)}})};
    results[1] = joined.to(call.results.at(1).dtype).value;
  }
  if (mask.at(0))
    results[0] = gradient.to(call.results.at(0).dtype).value;
  if (!mask.at(1))
    results[1] = nullptr;
  return results;
}

constexpr AtenRule kRules[] = {
    {"aten.grid_sampler_2d.default aten.grid_sampler_3d.default", import_grid_sampler},
    {"aten.grid_sampler_2d_backward.default aten.grid_sampler_3d_backward.default", import_grid_sampler_backward},
};

} // namespace

OpTable aten_grid_sample() { return {{}, kRules}; }

} // namespace oxyfuel
