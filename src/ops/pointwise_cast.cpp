// Changes of type: by value and by bits.
#include "ops/pointwise.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

/// To bool: != 0. Complex to real drops the imaginary part.
struct Cast : Pointwise<1> {
  static constexpr std::string_view name = "cast", doc = "the value in another element type";
  static constexpr DTypeRule dtype = DTypeRule::kGiven;
  static constexpr unsigned raw_operands = 1;
  static auto body(auto x, const graph::Node &node) {
    DType to = node.result()->type.dtype;
    if (x.dtype() == to)
      return x;
    if (is_complex(x.dtype()) && is_bool(to))
      return ne(real(x), real(x).like(0)) || ne(imag(x), imag(x).like(0));
    if (is_complex(x.dtype()) && !is_complex(to))
      return cast(real(x), to);
    if (is_complex(to)) {
      auto part = [&](auto value) { return value.dtype() == real_of(to) ? value : cast(value, real_of(to)); };
      return is_complex(x.dtype()) ? complex(part(real(x)), part(imag(x))) : complex(part(x), part(x).like(0));
    }
    return cast(x, to);
  }
};

struct Bitcast : Pointwise<1> {
  static constexpr std::string_view name = "bitcast", doc = "the same bits as another element type of the same size";
  static constexpr DTypeRule dtype = DTypeRule::kGiven;
  static constexpr unsigned raw_operands = 1;
  static auto body(auto x, const graph::Node &node) {
    DType to = node.result()->type.dtype;
    return x.dtype() == to ? x : bitcast(x, to);
  }
};

/// Never folded away: whoever makes one wants the memory.
struct Copy : Pointwise<1> {
  static constexpr std::string_view name = "copy", doc = "the same value in memory of its own";
  static constexpr DTypeRule dtype = DTypeRule::kGiven;
  static constexpr unsigned raw_operands = 1;
  static auto body(auto x) { return x; }
};

using Table = PointwiseTable<Cast, Bitcast, Copy>;

} // namespace

OpTable pointwise_cast() { return Table::table(); }

} // namespace oxyfuel
