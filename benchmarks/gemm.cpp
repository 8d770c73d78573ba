// Contractions as the compiler makes them, from the graph to machine code: GF/s beside the fused multiply-add peak
// measured in the same moment, on one thread and on all. Usage: gemm [-t target] [-d dump folder] [-s schedule text]
// [filter]
#include "peak.h"

#include "codegen/compile.h"
#include "ops/op.h"
#include "passes/graph/fuse.h"
#include "passes/loop/expand_math.h"
#include "passes/lower/contraction.h"
#include "runtime/host_table.h"
#include "runtime/threads.h"
#include "support/cpu.h"
#include "support/half.h"
#include "support/memory.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <string>

using namespace oxyfuel;
using namespace oxyfuel::benchmark;

namespace {

Machine machine_of(const codegen::Target &target) {
  Machine machine;
  machine.vector_bytes = static_cast<int>(target.vector_bits / 8);
  machine.vector_registers = static_cast<int>(target.vector_registers);
  machine.has_fma = target.has_fma;
  machine.has_masks = target.has_avx512;
  machine.has_bfloat16_dot = target.has_avx512bf16;
  machine.l1_bytes = static_cast<int64_t>(cpu_info().l1_data_bytes);
  machine.l2_bytes = static_cast<int64_t>(cpu_info().l2_bytes);
  machine.l3_bytes = static_cast<int64_t>(cpu_info().l3_bytes);
  return machine;
}

/// A program of one group, compiled, with memory of its own.
class Program {
public:
  Program(const std::string &text, codegen::CompileOptions options, const std::string &name,
          const std::optional<ContractionSchedule> &schedule) {
    graph_ = graph::parse(text);
    PassContext context;
    graph::fuse(*graph_, context);
    for (const auto &node : graph_->nodes())
      if (node->op->name == "group")
        group_ = node.get();
    double start = seconds();
    lowered_ = lower_contraction_as(*group_, machine_of(options.target), schedule);
    lowering_ms = (seconds() - start) * 1e3;
    std::mt19937 random(3);
    for (const graph::Value *operand : group_->operands)
      operands_.push_back(allocate(operand->type, &random));
    for (const auto &result : group_->results)
      results_.push_back(allocate(result->type, nullptr));
    for (const Temporary &temporary : lowered_.temporaries)
      temporaries_.push_back(reserve(number(temporary.elements) * static_cast<int64_t>(size_of(temporary.dtype))));
    start = seconds();
    for (const KernelCall &call : lowered_.calls) {
      loop::Kernel &kernel = *lowered_.kernels[static_cast<size_t>(call.kernel)];
      for (Buffer *buffer : kernel.buffers)
        buffer->is_unaliased = true;
      loop::expand_math(kernel);
      options.dump_name = name + "_" + kernel.name;
      const loop::Kernel *kernels[] = {&kernel};
      codegen::CompiledKernels compiled = compile_kernels(kernels, options);
      code_.push_back(std::make_unique<ExecutableMemory>());
      code_.back()->allocate(compiled.image.bytes.size());
      std::memcpy(code_.back()->data(), compiled.image.bytes.data(), compiled.image.bytes.size());
      code_.back()->seal();
      Step step;
      step.code = reinterpret_cast<OxyfuelKernel>(code_.back()->data() + compiled.entries[0]);
      for (const BufferReference &reference : call.buffers) {
        auto &list = reference.kind == BufferReference::Kind::kOperand  ? operands_
                     : reference.kind == BufferReference::Kind::kResult ? results_
                                                                        : temporaries_;
        step.buffers.push_back(list[static_cast<size_t>(reference.index)]->data());
      }
      for (Expr size : call.sizes)
        step.sizes.push_back(number(size));
      step.grid = evaluate(kernel.grid, [&](const Var *v) {
        for (size_t i = 0; i < kernel.sizes.size(); ++i)
          if (kernel.sizes[i] == v)
            return step.sizes[i];
        return int64_t{0};
      });
      step.kernel = &kernel;
      step.is_bind = call.is_bind;
      steps_.push_back(std::move(step));
    }
    compile_ms = (seconds() - start) * 1e3;
  }

  void run(runtime::Region &region, bool is_bind) {
    for (Step &step : steps_)
      if (step.is_bind == is_bind)
        region.parallel_for(step.grid, step.kernel->grain, static_cast<size_t>(step.kernel->scratch_bytes),
                            [&](int64_t begin, int64_t end, void *scratch) {
                              return step.code(step.buffers.data(), step.sizes.data(), begin, end, scratch,
                                               &runtime::host_table());
                            });
  }

  const std::string &schedule() const { return lowered_.schedule; }
  const void *operand(size_t i) const { return operands_[i]->data(); }
  const void *result() const { return results_[0]->data(); }
  int64_t grid() const { return steps_.back().grid; }
  double lowering_ms = 0, compile_ms = 0;

private:
  struct Step {
    OxyfuelKernel code = nullptr;
    std::vector<void *> buffers;
    std::vector<int64_t> sizes;
    int64_t grid = 0;
    const loop::Kernel *kernel = nullptr;
    bool is_bind = false;
  };
  static int64_t number(Expr e) { return hint_of(e).value_or(0); }

  std::unique_ptr<AlignedMemory> reserve(int64_t bytes) {
    auto memory = std::make_unique<AlignedMemory>();
    memory->reserve(static_cast<size_t>(bytes) + 64);
    std::memset(memory->data(), 0, static_cast<size_t>(bytes));
    return memory;
  }
  std::unique_ptr<AlignedMemory> allocate(const graph::Type &type, std::mt19937 *random) {
    int64_t count = 1;
    for (Expr extent : type.shape)
      count *= number(extent);
    auto memory = reserve(count * static_cast<int64_t>(size_of(type.dtype)));
    for (int64_t i = 0; random && i < count; ++i) {
      float value = static_cast<float>((*random)() % 256) / 128.0f - 1.0f;
      if (type.dtype == DType::kF32)
        reinterpret_cast<float *>(memory->data())[i] = value;
      else if (type.dtype == DType::kBF16)
        reinterpret_cast<uint16_t *>(memory->data())[i] = bf16_from_float(value);
    }
    return memory;
  }

  std::unique_ptr<graph::Graph> graph_;
  const graph::Node *group_ = nullptr;
  LoweredGroup lowered_;
  std::vector<std::unique_ptr<AlignedMemory>> operands_, results_, temporaries_;
  std::vector<std::unique_ptr<ExecutableMemory>> code_;
  std::vector<Step> steps_;
};

/// What is measured: a program of one contraction and what it costs.
struct Case {
  std::string name, text;
  double flops = 0, bytes = 0;            ///< bytes: of B
  std::function<double(Program &)> error; ///< empty: not checked
};

std::string list(const std::vector<int64_t> &numbers) {
  std::string text;
  for (int64_t number : numbers)
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

double number_at(const std::string &dtype, const void *data, int64_t i) {
  return dtype == "f32" ? static_cast<double>(static_cast<const float *>(data)[i])
                        : static_cast<double>(float_from_bf16(static_cast<const uint16_t *>(data)[i]));
}

enum class Form { kLinear, kProduct, kGelu, kGradient, kScores };

/// Largest error of some elements against double, relative to the sum of magnitudes.
double matrix_error(int64_t m, int64_t n, int64_t k, Form form, const std::string &dtype, Program &program) {
  auto at = [&](const void *data, int64_t i) { return number_at(dtype, data, i); };
  double worst = 0;
  std::mt19937 random(5);
  for (int i = 0; i < 200; ++i) {
    int64_t row = random() % static_cast<uint64_t>(m), col = random() % static_cast<uint64_t>(n);
    if (i < 20)
      row = m - 1 - i % m, col = n - 1;
    double sum = form == Form::kProduct ? 0.0 : at(program.operand(2), col);
    double scale = 1e-30;
    for (int64_t j = 0; j < k; ++j) {
      int64_t place = form == Form::kProduct ? j * n + col : col * k + j;
      double product = at(program.operand(0), row * k + j) * at(program.operand(1), place);
      sum += product;
      scale += std::abs(product);
    }
    if (form == Form::kGelu)
      sum = 0.5 * sum * (1 + std::erf(sum * std::sqrt(0.5)));
    worst = std::max(worst, std::abs(at(program.result(), row * n + col) - sum) / scale);
  }
  return worst;
}

/// kLinear, kGelu: x [m, k] times a weight [n, k] transposed, plus a bias. Products of two activations: kProduct x [m,
/// k] times y [k, n], kGradient x [k, m] transposed times y, kScores x times y [n, k] transposed.
Case matrix(const std::string &name, int64_t m, int64_t n, int64_t k, Form form = Form::kLinear,
            const std::string &dtype = "f32") {
  auto type = [&](const std::vector<int64_t> &sizes) { return dtype + "[" + list(sizes) + "]"; };
  Case c;
  c.name = name + " " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + " " + dtype;
  c.flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  c.bytes = static_cast<double>(n * k) * (dtype == "f32" ? 4 : 2);
  c.error = [=](Program &program) { return matrix_error(m, n, k, form, dtype, program); };
  std::string out = type({m, n});
  if (form == Form::kGradient || form == Form::kScores) {
    bool is_first = form == Form::kGradient; // the operand that is read transposed
    c.error = {};
    c.name = (is_first ? "gradient " : "scores ") + c.name;
    c.text = "graph @main(%x: " + type(is_first ? std::vector{k, m} : std::vector{m, k}) +
             ", %y: " + type(is_first ? std::vector{k, n} : std::vector{n, k}) +
             ") {\n%t: " + type(is_first ? std::vector{m, k} : std::vector{k, n}) + " = permute(" +
             (is_first ? "%x" : "%y") + ") {dims = [1, 0]}\n%0: " + out + " = matmul(" +
             (is_first ? "%t, %y" : "%x, %t") + ")\nreturn %0\n}";
    return c;
  }
  if (form == Form::kProduct) {
    c.text = "graph @main(%x: " + type({m, k}) + ", %w: " + type({k, n}) + ") {\n%0: " + out +
             " = matmul(%x, %w)\nreturn %0\n}";
    return c;
  }
  c.text = "graph @main(%x: " + type({m, k}) + ", %w: " + type({n, k}) + " static, %b: " + type({n}) +
           ") {\n%t: " + type({k, n}) + " = permute(%w) {dims = [1, 0]}\n%0: " + out + " = matmul(%x, %t)\n%1: " + out +
           " = add(%0, %b)\n";
  c.text += form == Form::kGelu ? "%2: " + out + " = gelu(%1) {approximate = \"none\"}\nreturn %2\n}" : "return %1\n}";
  return c;
}

/// The same with a number of rows that is not known when compiling.
Case symbolic(Case c, int64_t rows) {
  std::string number = "[" + std::to_string(rows) + ", ";
  for (size_t at = 0; (at = c.text.find(number, at)) != std::string::npos;)
    c.text.replace(at, number.size(), "[s0, ");
  c.text.insert(c.text.find(") {\n") + 1, " symbols(s0 in [2, 100000) hint " + std::to_string(rows) + ")");
  return c;
}

/// A square convolution with bias and relu; channels last in memory, or first.
Case convolution(const std::string &name, int64_t channels, int64_t size, int64_t outputs, int64_t kernel,
                 int64_t stride, int64_t groups = 1, bool is_last = true, const std::string &dtype = "f32") {
  int64_t padding = kernel / 2, out = (size + 2 * padding - kernel) / stride + 1;
  auto type = [&](int64_t c, int64_t extent) {
    std::string strides = is_last ? " strides(" + list({c * extent * extent, 1, c * extent, c}) + ")" : "";
    return dtype + "[" + list({1, c, extent, extent}) + "]" + strides;
  };
  std::string result = type(outputs, out);
  Case c;
  c.error = [=](Program &program) {
    auto place = [&](int64_t channel, int64_t y, int64_t x, int64_t count, int64_t extent) {
      return is_last ? (y * extent + x) * count + channel : (channel * extent + y) * extent + x;
    };
    double worst = 0;
    std::mt19937 random(5);
    auto draw = [&](int64_t count) { return static_cast<int64_t>(random() % static_cast<uint64_t>(count)); };
    for (int i = 0; i < 300; ++i) {
      int64_t o = draw(outputs), y = draw(out), x = i % 3 == 0 ? (out - 1) * (i & 1) : draw(out);
      int64_t per_group = channels / groups, first = o / (outputs / groups) * per_group;
      double sum = number_at(dtype, program.operand(2), o), scale = 1;
      for (int64_t channel = 0; channel < per_group; ++channel)
        for (int64_t tap = 0; tap < kernel * kernel; ++tap) {
          int64_t from_y = y * stride + tap / kernel - padding, from_x = x * stride + tap % kernel - padding;
          if (from_y < 0 || from_x < 0 || from_y >= size || from_x >= size)
            continue;
          double product =
              number_at(dtype, program.operand(0), place(first + channel, from_y, from_x, channels, size)) *
              number_at(dtype, program.operand(1), (o * per_group + channel) * kernel * kernel + tap);
          sum += product;
          scale += std::abs(product);
        }
      double found = number_at(dtype, program.result(), place(o, y, x, outputs, out));
      worst = std::max(worst, std::abs(found - std::max(0.0, sum)) / scale);
    }
    return worst;
  };
  c.name = name + " " + std::to_string(channels) + "x" + std::to_string(size) + " to " + std::to_string(outputs) +
           ", " + std::to_string(kernel) + "/" + std::to_string(stride) + (groups > 1 ? " grouped" : "") +
           (is_last ? "" : " first");
  c.flops = 2.0 * static_cast<double>(outputs * out * out) * static_cast<double>(channels / groups * kernel * kernel);
  c.bytes = static_cast<double>(channels * size * size + outputs * out * out) * 4; // what moves
  c.text = "graph @main(%x: " + type(channels, size) + ", %w: " + dtype + "[" +
           list({outputs, channels / groups, kernel, kernel}) + "] static, %b: " + dtype + "[" + list({outputs, 1, 1}) +
           "]) {\n%0: " + result + " = convolution(%x, %w) {stride = [" + list({stride, stride}) + "], padding = [" +
           list({padding, padding}) + "], dilation = [1, 1], groups = " + std::to_string(groups) + "}\n%1: " + result +
           " = add(%0, %b)\n%2: " + result + " = relu(%1)\nreturn %2\n}";
  return c;
}

void measure(const Case &c, const codegen::CompileOptions &options, int threads,
             const std::optional<ContractionSchedule> &schedule) {
  std::string name = c.name;
  std::replace_if(name.begin(), name.end(), [](char letter) { return letter == ' ' || letter == '/'; }, '_');
  Program program(c.text, options, name, schedule);
  runtime::Region region(threads), single(1);
  double start = seconds();
  program.run(region, true);
  double pack_ms = (seconds() - start) * 1e3;
  // Many short rounds, of which the best counts: other processes take the cores now and then.
  auto turns = static_cast<int>(std::max(1.0, 2e8 / std::max(c.flops, c.bytes * 4)));
  double best[2] = {0, 0}, peak = 0, deadline = seconds() + 0.6;
  for (int round = 0; round < 5 || seconds() < deadline; ++round) {
    for (int which = 0; which < 2; ++which) {
      runtime::Region &used = which ? region : single;
      program.run(used, false);
      start = which ? seconds() : thread_seconds();
      for (int i = 0; i < turns; ++i)
        program.run(used, false);
      best[which] = std::max(best[which], turns / ((which ? seconds() : thread_seconds()) - start));
    }
    if (round < 5)
      peak = std::max(peak, measure_peak(options.target.vector_bits));
  }
  double work = c.flops * 1e-9, traffic = c.bytes * 1e-9;
  std::printf("%-34s %7.1f GF/s %5.1f %%, %d threads %7.1f %5.1f %%  %6.1f GB/s %6.1f  %7.1f us  pack %.2f ms, "
              "compiled in %.1f + %.1f ms",
              c.name.c_str(), best[0] * work, best[0] * work / peak * 100, threads, best[1] * work,
              best[1] * work / peak / threads * 100, best[0] * traffic, best[1] * traffic, 1e6 / best[0], pack_ms,
              program.lowering_ms, program.compile_ms);
  if (c.error)
    std::printf(", error %.1e", c.error(program));
  std::printf("\n    %s grid %ld\n", program.schedule().c_str(), static_cast<long>(program.grid()));
  std::fflush(stdout);
}

std::vector<Case> cases() {
  return {
      matrix("bert", 128, 768, 768),
      matrix("bert", 128, 2304, 768),
      matrix("bert", 128, 3072, 768),
      matrix("bert", 128, 768, 3072),
      matrix("bert gelu", 128, 3072, 768, Form::kGelu),
      matrix("vit", 197, 3072, 768),
      matrix("batch", 1024, 3072, 768),
      matrix("square", 512, 512, 512, Form::kProduct),
      matrix("square", 1024, 1024, 1024, Form::kProduct),
      matrix("square", 2048, 2048, 2048, Form::kProduct),
      matrix("few", 32, 512, 512),
      matrix("few", 16, 4096, 4096),
      matrix("few", 8, 4096, 4096),
      matrix("few", 4, 768, 768),
      matrix("token", 1, 32000, 768),
      matrix("token", 1, 4096, 4096),
      matrix("token", 1, 768, 768),
      matrix("token", 1, 2304, 768, Form::kProduct),
      matrix("token", 1, 768, 3072, Form::kProduct),
      matrix("train", 768, 768, 128, Form::kGradient),
      matrix("train", 3072, 768, 512, Form::kGradient),
      matrix("train", 128, 768, 3072, Form::kProduct),
      matrix("train", 512, 3072, 768, Form::kProduct),
      matrix("train", 128, 128, 64, Form::kScores),
      matrix("train", 1024, 1024, 64, Form::kScores),
      symbolic(matrix("dynamic", 128, 3072, 768), 128),
      symbolic(matrix("dynamic", 13, 3072, 768), 13),
      matrix("odd", 127, 1000, 333),
      matrix("small", 64, 64, 64, Form::kProduct),
      matrix("bf16", 128, 3072, 768, Form::kLinear, "bf16"),
      matrix("bf16", 1, 4096, 4096, Form::kLinear, "bf16"),
      convolution("resnet", 3, 224, 64, 7, 2),
      convolution("resnet", 3, 224, 64, 7, 2, 1, false),
      convolution("resnet", 64, 56, 64, 3, 1),
      convolution("resnet", 128, 28, 128, 3, 1),
      convolution("resnet", 256, 14, 256, 3, 1),
      convolution("resnet", 512, 7, 512, 3, 1),
      convolution("resnet", 128, 56, 128, 3, 2),
      convolution("resnet", 64, 56, 256, 1, 1),
      convolution("resnet", 1024, 14, 256, 1, 1),
      convolution("resnet", 512, 7, 2048, 1, 1),
      convolution("resnet", 1024, 14, 2048, 1, 2),
      convolution("first", 64, 56, 64, 3, 1, 1, false),
      convolution("first", 64, 56, 256, 1, 1, 1, false),
      convolution("mobile", 144, 56, 144, 3, 1, 144),
      convolution("mobile", 144, 56, 144, 3, 2, 144),
      convolution("mobile", 384, 14, 384, 3, 1, 384),
      convolution("mobile", 960, 7, 960, 3, 1, 960),
      convolution("grouped", 128, 28, 128, 3, 1, 8),
      convolution("bf16", 64, 56, 64, 3, 1, 1, true, "bf16"),
      convolution("mobile first", 384, 14, 384, 3, 1, 384, false),
  };
}

} // namespace

int main(int argc, char **argv) {
  codegen::CompileOptions options;
  std::string filter;
  std::optional<ContractionSchedule> schedule;
  int threads = runtime::thread_limit();
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "-t" && i + 1 < argc)
      options.target = codegen::Target::parse(argv[++i]);
    else if (word == "-d" && i + 1 < argc)
      options.dump_dir = argv[++i];
    else if (word == "-s" && i + 1 < argc)
      schedule = ContractionSchedule::parse(argv[++i]);
    else
      filter = word;
  }
  options.verify = true;
  std::printf("%s, peak %.1f GF/s a core\n", options.target.cpu.c_str(), measure_peak(options.target.vector_bits));
  for (const Case &c : cases())
    if (filter.empty() || c.name.find(filter) != std::string::npos)
      measure(c, options, threads, schedule);
}
