// Contractions as the compiler makes them, from the graph to machine code: GF/s beside the fused multiply-add peak
// measured in the same moment, on one thread and on all. Usage: gemm [-t target] [-d dump folder] [-s schedule text]
// [filter]
#include "peak.h"

#include "codegen/compile.h"
#include "ops/op.h"
#include "passes/graph/fuse.h"
#include "passes/loop/expand_math.h"
#include "passes/lower/lower.h"
#include "runtime/host_table.h"
#include "runtime/threads.h"
#include "support/cpu.h"
#include "support/half.h"
#include "support/memory.h"

#include <cmath>
#include <cstdio>
#include <cstring>
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
  Program(const std::string &text, codegen::CompileOptions options, const std::string &name) {
    graph_ = graph::parse(text);
    PassContext context;
    graph::fuse(*graph_, context);
    for (const auto &node : graph_->nodes())
      if (node->op->name == "group")
        group_ = node.get();
    double start = seconds();
    lowered_ = lower_contraction(*group_, machine_of(options.target));
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

struct Shape {
  const char *name;
  int64_t m, n, k;
  enum Form { kLinear, kProduct, kGelu } form = kLinear;
  const char *dtype = "f32";
};

std::string text_of(const Shape &s) {
  auto type = [&](std::initializer_list<int64_t> sizes) {
    std::string text = std::string(s.dtype) + "[";
    for (int64_t size : sizes)
      text += (text.back() == '[' ? "" : ", ") + std::to_string(size);
    return text + "]";
  };
  std::string out = type({s.m, s.n});
  if (s.form == Shape::kProduct)
    return "graph @main(%x: " + type({s.m, s.k}) + ", %w: " + type({s.k, s.n}) + ") {\n%0: " + out +
           " = matmul(%x, %w)\nreturn %0\n}";
  std::string text = "graph @main(%x: " + type({s.m, s.k}) + ", %w: " + type({s.n, s.k}) +
                     " static, %b: " + type({s.n}) + ") {\n%t: " + type({s.k, s.n}) +
                     " = permute(%w) {dims = [1, 0]}\n%0: " + out + " = matmul(%x, %t)\n%1: " + out +
                     " = add(%0, %b)\n";
  if (s.form == Shape::kGelu)
    return text + "%2: " + out + " = gelu(%1) {approximate = \"none\"}\nreturn %2\n}";
  return text + "return %1\n}";
}

/// Largest error of some elements, against double; with no epilogue but the bias, which is third.
double error_of(const Shape &s, Program &program) {
  auto at = [&](const void *data, int64_t i) {
    return std::strcmp(s.dtype, "f32") == 0 ? static_cast<double>(static_cast<const float *>(data)[i])
                                            : float_from_bf16(static_cast<const uint16_t *>(data)[i]);
  };
  double worst = 0;
  std::mt19937 random(5);
  for (int i = 0; i < 200; ++i) {
    int64_t row = random() % static_cast<uint64_t>(s.m), col = random() % static_cast<uint64_t>(s.n);
    if (i < 20)
      row = s.m - 1 - i % s.m, col = s.n - 1;
    double sum = s.form == Shape::kProduct ? 0.0 : at(program.operand(2), col);
    double scale = 1e-30;
    for (int64_t k = 0; k < s.k; ++k) {
      int64_t place = s.form == Shape::kProduct ? k * s.n + col : col * s.k + k;
      double product = at(program.operand(0), row * s.k + k) * at(program.operand(1), place);
      sum += product;
      scale += std::abs(product);
    }
    if (s.form == Shape::kGelu)
      sum = 0.5 * sum * (1 + std::erf(sum * std::sqrt(0.5)));
    worst = std::max(worst, std::abs(at(program.result(), row * s.n + col) - sum) / scale);
  }
  return worst;
}

void measure(const Shape &s, const codegen::CompileOptions &options, int threads) {
  std::string name = std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k);
  Program program(text_of(s), options, name);
  runtime::Region region(threads), single(1);
  double start = seconds();
  program.run(region, true);
  double pack_ms = (seconds() - start) * 1e3;
  double flops = 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
  double bytes = static_cast<double>(s.n * s.k) * static_cast<double>(std::strcmp(s.dtype, "f32") == 0 ? 4 : 2);
  auto turns = static_cast<int>(std::max(1.0, 2e9 / flops));
  double best[2] = {0, 0}, peak = 0;
  for (int round = 0; round < 7; ++round) {
    for (int which = 0; which < 2; ++which) {
      runtime::Region &used = which ? region : single;
      program.run(used, false);
      start = seconds();
      for (int i = 0; i < turns; ++i)
        program.run(used, false);
      best[which] = std::max(best[which], turns / (seconds() - start));
    }
    peak = std::max(peak, measure_peak(options.target.vector_bits));
  }
  double gflops = flops * 1e-9;
  std::printf("%-10s %-18s %-4s %7.1f GF/s %5.1f %%  %7.1f on %d threads %5.1f %%  %5.1f GB/s %5.1f  pack %.2f ms, "
              "compiled in %.1f + %.1f "
              "ms, error %.1e\n    %s grid %ld\n",
              s.name, name.c_str(), s.dtype, best[0] * gflops, best[0] * gflops / peak * 100, best[1] * gflops, threads,
              best[1] * gflops / peak / threads * 100, best[0] * bytes * 1e-9, best[1] * bytes * 1e-9, pack_ms,
              program.lowering_ms, program.compile_ms, error_of(s, program), program.schedule().c_str(),
              static_cast<long>(program.grid()));
  std::fflush(stdout);
}

} // namespace

int main(int argc, char **argv) {
  codegen::CompileOptions options;
  std::string filter;
  int threads = runtime::thread_limit();
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "-t" && i + 1 < argc)
      options.target = codegen::Target::parse(argv[++i]);
    else if (word == "-d" && i + 1 < argc)
      options.dump_dir = argv[++i];
    else
      filter = word;
  }
  options.verify = true;
  std::printf("%s, peak %.1f GF/s a core\n", options.target.cpu.c_str(), measure_peak(options.target.vector_bits));
  const Shape shapes[] = {
      {"bert", 128, 768, 768},
      {"bert", 128, 2304, 768},
      {"bert", 128, 3072, 768},
      {"bert", 128, 768, 3072},
      {"gelu", 128, 3072, 768, Shape::kGelu},
      {"vit", 197, 3072, 768},
      {"batch", 1024, 3072, 768},
      {"square", 512, 512, 512, Shape::kProduct},
      {"square", 1024, 1024, 1024, Shape::kProduct},
      {"square", 2048, 2048, 2048, Shape::kProduct},
      {"few", 32, 512, 512},
      {"few", 8, 4096, 4096},
      {"token", 1, 32000, 768},
      {"token", 1, 4096, 4096},
      {"token", 1, 768, 768},
      {"conv", 3136, 64, 576},
      {"conv", 196, 256, 2304},
      {"conv", 3136, 256, 64},
      {"odd", 127, 1000, 333},
      {"token", 1, 2304, 768, Shape::kProduct},
      {"small", 64, 64, 64, Shape::kProduct},
      {"bf16", 128, 3072, 768, Shape::kLinear, "bf16"},
      {"bf16", 1, 4096, 4096, Shape::kLinear, "bf16"},
  };
  for (const Shape &shape : shapes)
    if (filter.empty() || std::string(shape.name).find(filter) != std::string::npos)
      measure(shape, options, threads);
}
