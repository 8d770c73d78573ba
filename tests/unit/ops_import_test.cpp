// Import rules: what nodes an ATen call becomes, and when a rule declines.
#include <gtest/gtest.h>

#include "ops/import.h"
#include "support/error.h"

namespace oxyfuel {
namespace {

class Import : public ::testing::Test {
protected:
  graph::Value *input(DType dtype, std::initializer_list<int64_t> shape) {
    return graph_.add_input(type(dtype, shape), "x" + std::to_string(graph_.inputs().size()));
  }

  graph::Type type(DType dtype, std::initializer_list<int64_t> shape) {
    graph::Type result{dtype, {}};
    for (int64_t size : shape)
      result.shape.push_back(graph_.context().integer(size));
    return result;
  }

  std::vector<graph::Value *> import(const char *overload, std::vector<AtenArgument> arguments,
                                     std::vector<graph::Type> results) {
    AtenCall call;
    call.overload = overload;
    call.arguments = std::move(arguments);
    call.results = std::move(results);
    auto values = import_aten(graph_, call);
    EXPECT_TRUE(values.has_value()) << overload << " has no rule";
    return values.value_or(std::vector<graph::Value *>{});
  }

  graph::Graph graph_;
};

TEST_F(Import, UnknownOverloadHasNoRule) {
  AtenCall call;
  call.overload = "aten.no_such_thing.default";
  EXPECT_FALSE(import_aten(graph_, call).has_value());
}

TEST_F(Import, EveryOverloadIsListedOnce) {
  EXPECT_GT(all_rules().size(), 400u);
  for (const AtenRule *rule : all_rules())
    EXPECT_EQ(find_rule(rule->overload), rule);
}

TEST_F(Import, SumWithAlphaIsFused) {
  auto *a = input(DType::kF32, {3}), *b = input(DType::kF32, {3});
  auto plain = import("aten.add.Tensor", {{a}, {b}, {int64_t(1)}}, {type(DType::kF32, {3})});
  EXPECT_EQ(plain[0]->producer->op->name, "add");
  auto scaled = import("aten.add.Tensor", {{a}, {b}, {2.5}}, {type(DType::kF32, {3})});
  EXPECT_EQ(scaled[0]->producer->op->name, "add_scaled");
}

TEST_F(Import, NumbersAreRoundedWhereEagerRoundsThem) {
  auto *x = input(DType::kBF16, {3});
  auto product = import("aten.mul.Tensor", {{x}, {0.1}}, {type(DType::kBF16, {3})});
  EXPECT_EQ(product[0]->producer->operands[1]->type.dtype, DType::kF32);
  auto sum = import("aten.add.Tensor", {{x}, {0.1}, {int64_t(1)}}, {type(DType::kBF16, {3})});
  EXPECT_EQ(sum[0]->producer->operands[1]->type.dtype, DType::kBF16);
}

TEST_F(Import, ComparisonsAreMadeInThePromotedType) {
  auto *x = input(DType::kI32, {3}), *y = input(DType::kI64, {3});
  auto result = import("aten.lt.Tensor", {{x}, {y}}, {type(DType::kBool, {3})});
  EXPECT_EQ(compute_of(*result[0]->producer), DType::kI64);
  auto *scalar = input(DType::kI64, {});
  auto mixed = import("aten.lt.Tensor", {{x}, {scalar}}, {type(DType::kBool, {3})});
  EXPECT_EQ(compute_of(*mixed[0]->producer), DType::kI32);
  auto real = import("aten.lt.Scalar", {{x}, {0.5}}, {type(DType::kBool, {3})});
  EXPECT_EQ(compute_of(*real[0]->producer), DType::kF32);
}

TEST_F(Import, AnUnknownArgumentIsDeclined) {
  auto *x = input(DType::kF32, {2, 3});
  EXPECT_THROW(import("aten.exp.default", {{x}, {int64_t(1)}}, {type(DType::kF32, {2, 3})}), UnsupportedError);
  EXPECT_THROW(
      import("aten.index_select.default", {{x}, {int64_t(5)}, {input(DType::kI64, {2})}}, {type(DType::kF32, {2, 2})}),
      UnsupportedError);
}

TEST_F(Import, AResultOfAnotherTypeIsDeclined) {
  auto *x = input(DType::kF32, {2, 3});
  EXPECT_THROW(import("aten.clone.default", {{x}}, {type(DType::kF32, {3, 2})}), UnsupportedError);
}

TEST_F(Import, SlicesAreClamped) {
  auto *x = input(DType::kF32, {10});
  auto result = import("aten.slice.Tensor", {{x}, {int64_t(0)}, {int64_t(-3)}, {INT64_MAX}, {int64_t(1)}},
                       {type(DType::kF32, {3})});
  EXPECT_EQ(result[0]->producer->get<Expr>("start").constant(), 7);
}

TEST_F(Import, BatchNormDeclinesToUpdateStatistics) {
  auto *x = input(DType::kF32, {2, 3, 4}), *mean = input(DType::kF32, {3}), *variance = input(DType::kF32, {3});
  std::vector<graph::Type> types{type(DType::kF32, {2, 3, 4}), type(DType::kF32, {3}), type(DType::kF32, {3})};
  EXPECT_THROW(
      import("aten.native_batch_norm.default", {{x}, {}, {}, {mean}, {variance}, {true}, {0.1}, {1e-5}}, types),
      UnsupportedError);
  EXPECT_EQ(import("aten._native_batch_norm_legit.no_stats", {{x}, {}, {}, {true}, {0.1}, {1e-5}}, types).size(), 3u);
}

} // namespace
} // namespace oxyfuel
