#include "passes/pass_manager.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <type_traits>

#include "ir/graph/op_info.h"
#include "ops/op.h"
#include "support/error.h"

namespace oxyfuel {

namespace graph {
#define GRAPH_PASS(function) bool function(Graph &graph, PassContext &context);
#include "passes/passes.def"
} // namespace graph
namespace loop {
#define LOOP_PASS(function) bool function(Kernel &kernel, PassContext &context);
#include "passes/passes.def"
} // namespace loop

namespace {

/// "remove_dead" as "remove-dead", kept for good.
std::string_view pass_name(std::string function) {
  static std::deque<std::string> names;
  std::replace(function.begin(), function.end(), '_', '-');
  return names.emplace_back(std::move(function));
}

std::string dump_prefix(const graph::Graph &) { return ""; }
std::string dump_prefix(const loop::Kernel &kernel) { return kernel.name + "."; }

void write_dump(const std::string &prefix, const std::string &text, std::string_view stage, PassContext &context) {
  std::string number = std::to_string(context.dumps++);
  if (number.size() < 2)
    number.insert(0, "0");
  std::filesystem::path folder(context.options.dump_directory);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::filesystem::path file = folder / (prefix + number + "-" + std::string(stage) + ".oxir");
  std::ofstream out(file);
  out << text;
  if (!out.flush())
    throw CompileError("cannot write " + file.string(),
                       {"", "", "", "point OXYFUEL_DUMP at a folder that can be written"});
}

/// Calls `f` so that an InternalError from it names the pass.
template <typename F> void blame(std::string_view pass, F f) {
  try {
    f();
  } catch (const InternalError &error) {
    throw InternalError("pass " + std::string(pass) + ": " + error.what());
  }
}

template <typename Program> void check_round_trip(const Program &program) {
  std::string text = print(program), again;
  if constexpr (std::is_same_v<Program, graph::Graph>)
    again = graph::print(*graph::parse(text));
  else
    again = loop::print(*loop::parse(text));
  OXYFUEL_CHECK(again == text, "its result reads back as another program:\n" + text + "\nand\n" + again);
}

template <typename Program>
bool run_passes(Program &program, std::span<const Pass<Program>> passes, PassContext &context) {
  bool any_changed = false;
  const bool keep_text = context.options.verify;
  std::string text = keep_text ? print(program) : "";
  for (const Pass<Program> &pass : passes) {
    if (!pass.is_required && (context.options.skipped.count(pass.name) || context.options.fuel <= 0))
      continue;
    context.current_pass = pass.name;
    auto start = std::chrono::steady_clock::now();
    bool changed = false;
    blame(pass.name, [&] { changed = pass.run(program, context); });
    context.times.push_back(
        {pass.name, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()});
    any_changed |= changed;
    if (context.options.round_trip)
      blame(pass.name, [&] { check_round_trip(program); });
    std::string now = keep_text || (changed && !context.options.dump_directory.empty()) ? print(program) : "";
    if (changed && !context.options.dump_directory.empty())
      write_dump(dump_prefix(program), now, pass.name, context);
    if (context.options.verify) {
      blame(pass.name, [&] {
        verify(program);
        OXYFUEL_CHECK(changed || now == text, "changed the program and says that it did not");
        OXYFUEL_CHECK(!changed || now != text, "left the program as it was and says that it changed it");
      });
      text = std::move(now);
    }
  }
  context.current_pass = {};
  return any_changed;
}

template <typename Program>
std::vector<Pass<Program>> parse_pipeline(std::string_view names, std::span<const Pass<Program>> all) {
  std::vector<Pass<Program>> pipeline;
  while (!names.empty()) {
    size_t end = std::min(names.find(','), names.size());
    std::string_view name = names.substr(0, end);
    names.remove_prefix(std::min(end + 1, names.size()));
    auto pass = std::find_if(all.begin(), all.end(), [&](const auto &one) { return one.name == name; });
    if (pass == all.end()) {
      std::string known;
      for (const auto &one : all)
        known += (known.empty() ? "" : ", ") + std::string(one.name);
      throw CompileError("there is no pass \"" + std::string(name) + "\"", {"", "passes: " + known, "", ""});
    }
    pipeline.push_back(*pass);
  }
  return pipeline;
}

template <typename Program> const Pass<Program> *find_pass(std::string_view name, std::span<const Pass<Program>> all) {
  for (const Pass<Program> &pass : all)
    if (pass.name == name)
      return &pass;
  return nullptr;
}

} // namespace

PassOptions PassOptions::from_environment() {
  PassOptions options;
  auto variable = [](const char *name) -> std::string {
    const char *value = std::getenv(name);
    return value ? value : "";
  };
  std::string verify = variable("OXYFUEL_VERIFY");
  options.verify = !verify.empty() && verify != "0";
  options.dump_directory = variable("OXYFUEL_DUMP");
  std::string skipped = variable("OXYFUEL_SKIP");
  for (size_t at = 0; at < skipped.size();) {
    size_t end = std::min(skipped.find(',', at), skipped.size());
    options.skipped.insert(skipped.substr(at, end - at));
    at = end + 1;
  }
  if (std::string fuel = variable("OXYFUEL_FUEL"); !fuel.empty())
    options.fuel = std::strtoll(fuel.c_str(), nullptr, 10);
  return options;
}

void PassContext::remark(const graph::Node &node, std::string text) {
  std::string where(node.op->name);
  if (!node.location.place.empty())
    where += " at " + node.location.place;
  remarks.push_back({std::string(current_pass), std::move(where), std::move(text)});
}

bool PassManager::run(graph::Graph &graph, std::span<const GraphPass> passes, PassContext &context) {
  return run_passes<graph::Graph>(graph, passes, context);
}
bool PassManager::run(loop::Kernel &kernel, std::span<const LoopPass> passes, PassContext &context) {
  return run_passes<loop::Kernel>(kernel, passes, context);
}

void PassManager::dump(const graph::Graph &graph, std::string_view stage, PassContext &context) {
  if (!context.options.dump_directory.empty())
    write_dump("", graph::print(graph), stage, context);
}

std::span<const GraphPass> graph_passes() {
  static const std::vector<GraphPass> passes = {
#define GRAPH_PASS(function) {pass_name(#function), graph::function},
#include "passes/passes.def"
  };
  return passes;
}

std::span<const LoopPass> loop_passes() {
  static const std::vector<LoopPass> passes = {
#define LOOP_PASS(function) {pass_name(#function), loop::function},
#include "passes/passes.def"
  };
  return passes;
}

const GraphPass *find_graph_pass(std::string_view name) { return find_pass(name, graph_passes()); }
const LoopPass *find_loop_pass(std::string_view name) { return find_pass(name, loop_passes()); }
std::vector<GraphPass> parse_graph_pipeline(std::string_view names) { return parse_pipeline(names, graph_passes()); }
std::vector<LoopPass> parse_loop_pipeline(std::string_view names) { return parse_pipeline(names, loop_passes()); }

} // namespace oxyfuel
