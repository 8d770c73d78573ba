// Graph IR alone, with a table of three operators.
#include "ir/graph/graph.h"

#include <gtest/gtest.h>

#include "ir/graph/op_info.h"
#include "support/error.h"

namespace oxyfuel::graph {
namespace {

std::vector<Type> same_as_first(const Node &node, ExprContext &) { return {node.operands[0]->type}; }

const OpInfo *find_test_op(std::string_view name) {
  static const std::vector<OpInfo> ops = [] {
    std::vector<OpInfo> made(4);
    made[0].name = "exp";
    made[0].infer = same_as_first;
    made[1].name = "add";
    made[1].infer = same_as_first;
    made[2].name = "extern";
    made[2].kind = OpKind::kExtern;
    made[2].has_effect = true;
    made[3].name = "group";
    made[3].kind = OpKind::kRegion;
    return made;
  }();
  for (const OpInfo &op : ops)
    if (op.name == name)
      return &op;
  return nullptr;
}

std::unique_ptr<Graph> read(const std::string &text) { return parse(text, find_test_op); }

/// What is printed of a text that is in printed form already is that text.
void expect_round_trip(const std::string &text) {
  auto graph = read(text);
  verify(*graph);
  EXPECT_EQ(print(*graph), text);
}

TEST(GraphText, Plain) {
  expect_round_trip(R"(graph @main(%x: f32[2, 3], %w: f32[2, 3] static) {
  %0: f32[2, 3] = add(%x, %w)
  %y: f32[2, 3] = exp(%0) loc("model.py:12 in forward")
  return %y, null
}
)");
}

TEST(GraphText, SymbolsAndLayouts) {
  expect_round_trip(
      R"(graph @main(%x: f32[s0, s1 * 2 + 1] strides(s1 * 2 + 1, 1) offset(4)) symbols(s0 in [2, inf) hint 32, s1) {
  %0: f32[s0, s1 * 2 + 1] strides(1, s0) = exp(%x)
  mutate %x = %0
  return %0 strides(1, s0)
}
)");
}

TEST(GraphText, Attributes) {
  expect_round_trip(R"(graph @main(%x: i64[s0]) symbols(s0 in [1, 100)) {
  %0: i64[s0], %1: f32[] = extern(%x, null) {a = 3, b = -1.5, c = true, d = "with \"quotes\"\n", e = bf16, f = size(s0 + 1), g = sizes(s0, 4), h = [1, -2], i = reals(1.0, inf, nan), j = sizes(), k = [], l = reals()}
  extern()
  return %0, %1
}
)");
}

TEST(GraphText, Regions) {
  expect_round_trip(R"(graph @main(%x: f32[s0]) symbols(s0) {
  %0: f32[s0] = group(%x) {kind = "loops", region = graph @inner(%a: f32[s0]) {
    %0: f32[s0] = exp(%a)
    return %0
  }}
  return %0
}
)");
}

TEST(GraphText, CanonicalTextsOfEqualGroupsAreEqual) {
  auto one = read("graph @a(%x: f32[s0]) symbols(s0) { %y: f32[s0] = exp(%x) loc(\"a.py:1\") return %y }");
  auto two = read("graph @b(%z: f32[s7]) symbols(s7) { %w: f32[s7] = exp(%z) return %w }");
  EXPECT_EQ(print(*one, true), print(*two, true));
  EXPECT_NE(print(*one), print(*two));
}

TEST(GraphText, SizesOfFunctions) {
  auto graph =
      read("graph @main(%x: f32[floor_div(s0 + 7, 8), min(s0, 4), (s0 - 1) * (s0 + 2)]) symbols(s0 in [2, inf)) {"
           " return %x }");
  std::string text = print(*graph);
  EXPECT_EQ(print(*read(text)), text);
}

void expect_error(const std::string &text, const std::string &wanted) {
  try {
    read(text);
    FAIL() << "no error in " << text;
  } catch (const CompileError &error) {
    EXPECT_NE(std::string(error.what()).find(wanted), std::string::npos) << error.what();
  }
}

TEST(GraphText, ErrorsHavePlaces) {
  expect_error("graph @main(%x: f33[2]) { return }", "1:17: \"f33\" is no element type");
  expect_error("graph @main(%x: f32[n]) { return }", "1:21: symbol n is not declared");
  expect_error("graph @main(%x: f32[2]) {\n  %y: f32[2] = expp(%x)\n  return\n}",
               "2:16: there is no operator \"expp\"");
  expect_error("graph @main(%x: f32[2]) {\n  return %y\n}", "2:10: %y is not defined here");
  expect_error("graph @main(%x: f32[2]) {\n  %y: f32[3] = exp(%x)\n  return %y\n}",
               "2:3: type of result 0: exp gives f32[2]");
  expect_error("graph @main(%x: f32[2], %x: f32[2]) { return }", "1:25: %x is defined twice");
  expect_error("graph @main(", "1:13: bracket without end");
  expect_error("graph @main(%x: f32[2]) { %a: f32[2] = exp(null) return }", "1:40: exp needs operand 0");
  expect_error("graph @main(%x: f32[" + std::string(1000, '(') + "2" + std::string(1000, ')') + "]) { return }",
               "nested too deeply");
}

TEST(GraphChange, UsesFollow) {
  auto graph =
      read("graph @main(%x: f32[2], %z: f32[2]) { %a: f32[2] = exp(%x) %b: f32[2] = add(%a, %a) return %b, %a }");
  Value *x = graph->inputs()[0].get(), *z = graph->inputs()[1].get();
  Node *exp = graph->nodes()[0].get(), *add = graph->nodes()[1].get();
  EXPECT_EQ(exp->result()->users.size(), 2u);
  graph->set_operand(add, 1, z);
  EXPECT_EQ(exp->result()->users.size(), 1u);
  graph->replace_uses(exp->result(), x);
  EXPECT_EQ(graph->outputs[1], x);
  EXPECT_EQ(x->users.size(), 2u);
  verify(*graph);
  EXPECT_TRUE(graph->remove_dead());
  EXPECT_FALSE(graph->remove_dead());
  EXPECT_EQ(graph->nodes().size(), 1u);
  EXPECT_EQ(x->users.size(), 1u);
  EXPECT_THROW(graph->erase(add), InternalError);
  verify(*graph);
}

TEST(GraphChange, EffectsStay) {
  auto graph =
      read("graph @main(%x: f32[2]) { %a: f32[2] = extern(%x) %b: f32[2] = extern(%x) {effect = false} return }");
  EXPECT_TRUE(graph->remove_dead());
  EXPECT_EQ(graph->nodes().size(), 1u);
}

TEST(GraphChange, SortPutsProducersFirst) {
  auto graph = read("graph @main(%x: f32[2]) { %a: f32[2] = exp(%x) extern(%x) %b: f32[2] = exp(%x) return %a }");
  Node *a = graph->nodes()[0].get(), *b = graph->nodes()[2].get();
  graph->set_operand(a, 0, b->result());
  EXPECT_THROW(verify(*graph), InternalError);
  graph->sort();
  verify(*graph);
  EXPECT_EQ(graph->nodes()[0].get(), b);
  EXPECT_EQ(graph->nodes()[1].get(), a);
}

TEST(GraphVerify, FindsWrongUses) {
  auto graph = read("graph @main(%x: f32[2]) { %a: f32[2] = exp(%x) return %a }");
  graph->inputs()[0]->users.clear();
  EXPECT_THROW(verify(*graph), InternalError);
}

TEST(GraphStrides, Orders) {
  Graph graph;
  ExprContext &context = graph.context();
  std::vector<Expr> shape = {context.integer(2), context.integer(3), context.integer(4)};
  auto strides = ordered_strides(context, shape, {0, 2, 1});
  EXPECT_EQ(strides[0].constant(), 12);
  EXPECT_EQ(strides[1].constant(), 1);
  EXPECT_EQ(strides[2].constant(), 3);
  EXPECT_EQ(element_count(context, shape).constant(), 24);
}

} // namespace
} // namespace oxyfuel::graph
