#include "passes/pass_manager.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "ops/op.h"
#include "support/error.h"

namespace oxyfuel {
namespace {

std::unique_ptr<graph::Graph> example() {
  return graph::parse(R"(graph @main(%x: f32[4]) {
    %0: f32[4] = neg(%x)
    %1: f32[4] = neg(%0)
    %2: f32[4] = exp(%x)
    return %1
  })");
}

bool change_and_deny(graph::Graph &graph, PassContext &) {
  graph.remove_dead();
  return false;
}
bool break_uses(graph::Graph &graph, PassContext &) {
  graph.inputs()[0]->users.clear();
  return false;
}
bool say_something(graph::Graph &graph, PassContext &context) {
  context.remark(*graph.nodes()[0], "no reason");
  return false;
}

TEST(PassManager, RunsInOrderAndTellsChange) {
  auto graph = example();
  PassContext context;
  auto passes = parse_graph_pipeline("canonicalise,remove-dead");
  EXPECT_TRUE(PassManager::run(*graph, passes, context));
  EXPECT_TRUE(graph->nodes().empty());
  EXPECT_FALSE(PassManager::run(*graph, passes, context));
  EXPECT_EQ(context.times.size(), 4u);
}

TEST(PassManager, SkipAndFuel) {
  auto graph = example();
  PassContext skipping({.skipped = {"canonicalise"}});
  EXPECT_FALSE(PassManager::run(*graph, parse_graph_pipeline("canonicalise"), skipping));
  PassContext empty({.fuel = 0});
  EXPECT_FALSE(PassManager::run(*graph, parse_graph_pipeline("canonicalise"), empty));
  EXPECT_EQ(graph->nodes().size(), 3u);
}

TEST(PassManager, WhatLaterStagesNeedRunsAnyway) {
  auto graph = example();
  PassContext context({.skipped = {"canonicalise"}, .fuel = 0});
  GraphPass pass{"canonicalise", [](graph::Graph &graph, PassContext &) { return graph.remove_dead(); }, true};
  EXPECT_TRUE(PassManager::run(*graph, std::span<const GraphPass>(&pass, 1), context));
  EXPECT_EQ(graph->nodes().size(), 2u);
}

TEST(PassManager, HoldsPassesToWhatTheySay) {
  PassContext context({.verify = true});
  auto expect_blame = [&](GraphPass pass, const std::string &wanted) {
    auto graph = example();
    try {
      PassManager::run(*graph, std::span(&pass, 1), context);
      FAIL() << "no error";
    } catch (const InternalError &error) {
      EXPECT_NE(std::string(error.what()).find(wanted), std::string::npos) << error.what();
    }
  };
  expect_blame({"denier", change_and_deny}, "pass denier: changed the program");
  expect_blame({"breaker", break_uses}, "pass breaker: graph @main: input %x");
}

TEST(PassManager, Remarks) {
  auto graph = example();
  PassContext context;
  GraphPass pass{"speaker", say_something};
  PassManager::run(*graph, std::span(&pass, 1), context);
  ASSERT_EQ(context.remarks.size(), 1u);
  EXPECT_EQ(context.remarks[0].pass, "speaker");
  EXPECT_EQ(context.remarks[0].where, "neg");
}

TEST(PassManager, DumpsReadBack) {
  std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "oxyfuel_dumps";
  std::filesystem::remove_all(folder);
  auto graph = example();
  PassContext context({.dump_directory = folder.string()});
  PassManager::run(*graph, parse_graph_pipeline("common-subexpressions,canonicalise,remove-dead"), context);
  std::vector<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"00-common-subexpressions.oxir", "01-canonicalise.oxir"}));
}

TEST(PassManager, UnknownNames) {
  EXPECT_THROW(parse_graph_pipeline("canonicalise,nothing"), CompileError);
  EXPECT_EQ(find_graph_pass("nothing"), nullptr);
  EXPECT_NE(find_graph_pass("remove-dead"), nullptr);
}

} // namespace
} // namespace oxyfuel
