// oxyfuel-opt: runs passes on the text of a graph or a kernel and prints what comes out.
//
//   oxyfuel-opt file.oxir --passes=canonicalise,remove-dead [--compare]
//
// The file holds one or several programs, separated by lines `// -----`; `-` reads standard input. Errors go to
// standard error as file:line:column: message, and make the exit status 1.
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

#include "ops/interpret.h"
#include "ops/op.h"
#include "ops/reference.h"
#include "passes/pass_manager.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

constexpr const char *kUsage = R"(usage: oxyfuel-opt [file or -] [options]
  --passes=a,b      run these passes
  --list            print the names of all passes
  --canonical       print values renamed in order of appearance, without locations
  --compare         run the graph on made-up inputs before and after, and compare
  --no-verify       do not check the rules of the IR after each pass
  --remarks         print what passes said, to standard error
  --times           print how long each pass took, to standard error
  --dump=folder     write each stage that changed something
  --fuel=n          allow n rewrites
  --skip=a,b        leave these passes out
)";

struct Arguments {
  std::string file, passes;
  bool canonical = false, compare = false, remarks = false, times = false;
  PassOptions options = PassOptions::from_environment();
};

/// Inputs that are the same at each run: small numbers, never equal along an axis, exact in every type.
graph::Tensor made_up_input(const graph::Value &input, int seed) {
  std::vector<int64_t> shape;
  for (Expr e : input.type.shape) {
    auto size = hint_of(e);
    if (!size)
      throw CompileError("--compare needs a hint for each symbol");
    shape.push_back(*size);
  }
  graph::Tensor tensor = graph::make_tensor(input.type.dtype, shape);
  for (int64_t i = 0, count = graph::element_count(tensor); i < count; ++i) {
    Scalar number{};
    number.d = static_cast<double>((i * 7 + seed * 5) % 23) / 4 - 2;
    if (!is_float(tensor.dtype) && !is_complex(tensor.dtype))
      number.d = static_cast<double>((i + seed) % 2);
    graph::set_element(tensor, i, convert(number, DType::kF64, tensor.dtype));
  }
  return tensor;
}

std::vector<graph::Tensor> results_of(const graph::Graph &graph) {
  std::vector<graph::Tensor> inputs, results, mutated;
  for (const auto &input : graph.inputs())
    inputs.push_back(made_up_input(*input, input->index));
  std::vector<int64_t> symbols;
  for (const Var *symbol : graph.symbols)
    symbols.push_back(symbol->hint);
  results = graph::interpret(graph, inputs, symbols, &mutated);
  results.insert(results.end(), mutated.begin(), mutated.end());
  return results;
}

void compare(const std::vector<graph::Tensor> &before, const std::vector<graph::Tensor> &after) {
  OXYFUEL_CHECK(before.size() == after.size(), "the number of results changed");
  for (size_t i = 0; i < before.size(); ++i) {
    OXYFUEL_CHECK(before[i].dtype == after[i].dtype && before[i].shape == after[i].shape,
                  "the type of result " + std::to_string(i) + " changed");
    OXYFUEL_CHECK(before[i].data == after[i].data, "the values of result " + std::to_string(i) + " changed");
  }
}

std::string run_graph(const std::string &text, const Arguments &arguments, PassContext &context) {
  auto program = graph::parse(text);
  graph::verify(*program);
  std::vector<graph::Tensor> before;
  if (arguments.compare)
    before = results_of(*program);
  PassManager::run(*program, parse_graph_pipeline(arguments.passes), context);
  if (arguments.compare)
    compare(before, results_of(*program));
  return graph::print(*program, arguments.canonical);
}

std::string run_kernel(const std::string &text, const Arguments &arguments, PassContext &context) {
  auto program = loop::parse(text);
  loop::verify(*program);
  PassManager::run(*program, parse_loop_pipeline(arguments.passes), context);
  return loop::print(*program, arguments.canonical);
}

/// Whether the first word that is no comment is `graph`.
bool is_graph(const std::string &text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    size_t at = line.find_first_not_of(" \t\r");
    if (at != std::string::npos && line.compare(at, 2, "//") != 0)
      return line.compare(at, 6, "graph ") == 0;
  }
  return false;
}

/// Each program has the lines before it as empty ones, so that positions in messages are those in the file.
std::vector<std::string> split_programs(std::istream &in) {
  std::vector<std::string> programs(1);
  int number = 0;
  for (std::string line; std::getline(in, line); ++number) {
    if (line == "// -----")
      programs.emplace_back(static_cast<size_t>(number) + 1, '\n');
    else
      programs.back() += line + "\n";
  }
  return programs;
}

void report(const Arguments &arguments, const PassContext &context) {
  if (arguments.remarks)
    for (const Remark &remark : context.remarks)
      std::cerr << "remark: " << remark.pass << ": " << remark.where << (remark.where.empty() ? "" : ": ")
                << remark.text << "\n";
  if (arguments.times)
    for (const PassTime &time : context.times)
      std::cerr << "time: " << time.pass << ": " << time.seconds * 1e3 << " ms\n";
}

bool parse_arguments(int count, char **values, Arguments &arguments) {
  arguments.options.verify = true;
  for (int i = 1; i < count; ++i) {
    std::string argument = values[i];
    auto value_of = [&](const char *option) -> const char * {
      size_t length = std::strlen(option);
      return argument.compare(0, length, option) == 0 ? argument.c_str() + length : nullptr;
    };
    if (const char *value = value_of("--passes="))
      arguments.passes = value;
    else if (const char *value = value_of("--dump="))
      arguments.options.dump_directory = value;
    else if (const char *value = value_of("--fuel="))
      arguments.options.fuel = std::atoll(value);
    else if (const char *value = value_of("--skip=")) {
      std::istringstream names(value);
      for (std::string name; std::getline(names, name, ',');)
        arguments.options.skipped.insert(name);
    } else if (argument == "--canonical")
      arguments.canonical = true;
    else if (argument == "--compare")
      arguments.compare = true;
    else if (argument == "--no-verify")
      arguments.options.verify = false;
    else if (argument == "--remarks")
      arguments.remarks = true;
    else if (argument == "--times")
      arguments.times = true;
    else if (argument[0] != '-' || argument == "-")
      arguments.file = argument;
    else
      return false;
  }
  return !arguments.file.empty();
}

int run(const Arguments &arguments) {
  std::ifstream file(arguments.file);
  if (arguments.file != "-" && !file) {
    std::cerr << "oxyfuel-opt: cannot read " << arguments.file << "\n";
    return 1;
  }
  int status = 0;
  bool is_first = true;
  for (const std::string &text : split_programs(arguments.file == "-" ? std::cin : file)) {
    PassContext context(arguments.options);
    try {
      std::string result = is_graph(text) ? run_graph(text, arguments, context) : run_kernel(text, arguments, context);
      std::cout << (is_first ? "" : "// -----\n") << result << std::flush;
    } catch (const Error &error) {
      std::string message = error.what();
      bool has_place = !message.empty() && message[0] >= '0' && message[0] <= '9';
      std::cerr << arguments.file << (has_place ? ":" : ": ") << message << "\n";
      status = 1;
    }
    is_first = false;
    report(arguments, context);
  }
  return status;
}

} // namespace

} // namespace oxyfuel

int main(int count, char **values) {
  if (count == 2 && std::strcmp(values[1], "--list") == 0) {
    for (const auto &pass : oxyfuel::graph_passes())
      std::cout << pass.name << "\n";
    for (const auto &pass : oxyfuel::loop_passes())
      std::cout << pass.name << "\n";
    return 0;
  }
  oxyfuel::Arguments arguments;
  try {
    if (!oxyfuel::parse_arguments(count, values, arguments)) {
      std::cerr << oxyfuel::kUsage;
      return 2;
    }
    return oxyfuel::run(arguments);
  } catch (const std::exception &error) {
    std::cerr << "oxyfuel-opt: " << error.what() << "\n";
    return 1;
  }
}
