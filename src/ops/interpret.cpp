// The interpreter of Graph IR. Pointwise operators, views, indexed operators and reductions come from the op table: the
// expression of one element is built once a node, with a load where it reads an operand, and evaluated for every
// element.
#include "ops/interpret.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <unordered_map>

#include "ops/evaluate.h"
#include "ops/recurrence.h"
#include "ops/reference.h"
#include "support/error.h"

namespace oxyfuel::graph {

namespace {

class Interpreter {
public:
  Interpreter(const Graph &graph, std::unordered_map<const Var *, Scalar> &symbols)
      : graph_(graph), context_(*graph.shared_context()), symbols_(symbols) {}

  std::vector<Tensor> run(const std::vector<Tensor> &inputs, std::vector<Tensor> *mutated) {
    OXYFUEL_CHECK(inputs.size() == graph_.inputs().size(), "number of inputs of graph @" + graph_.name);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Value *input = graph_.inputs()[i].get();
      OXYFUEL_CHECK(inputs[i].dtype == input->type.dtype && inputs[i].shape == shape_of(input->type),
                    "input %" + input->name + " is no " + print(input->type));
      values_[input] = inputs[i];
    }
    for (const auto &node : graph_.nodes()) {
      std::vector<Tensor> results = run_node(*node);
      for (size_t i = 0; i < results.size(); ++i)
        values_[node->result(static_cast<int>(i))] = std::move(results[i]);
    }
    std::vector<Tensor> outputs;
    for (const Value *output : graph_.outputs)
      outputs.push_back(output ? values_.at(output) : Tensor{});
    if (mutated)
      for (const Mutation &mutation : graph_.mutations)
        mutated->push_back(values_.at(mutation.value));
    return outputs;
  }

private:
  int64_t size(Expr e) {
    return evaluate(e, [&](const Var *symbol) { return symbols_.at(symbol).i; });
  }

  std::vector<int64_t> shape_of(const Type &type) {
    std::vector<int64_t> shape;
    for (Expr e : type.shape)
      shape.push_back(size(e));
    return shape;
  }

  std::vector<Tensor> run_node(const Node &node) {
    if (node.op->body || node.op->element)
      return {run_elements(node)};
    switch (node.op->kind) {
    case OpKind::kReduction: return {run_reduction(node)};
    case OpKind::kRegion: return run_region(node);
    case OpKind::kExtern:
      throw UnsupportedError("the interpreter does not run " + std::string(node.op->name) + ", which PyTorch does");
    default: break;
    }
    Call call = call_of(node);
    switch (node.op->kind) {
    case OpKind::kContraction: return node.op->name == "matmul" ? reference_matmul(call) : reference_convolution(call);
    case OpKind::kAttention: return reference_attention(call);
    case OpKind::kScatter: return reference_scatter(call);
    case OpKind::kScan: return reference_scan(call);
    default: return reference_sort(call);
    }
  }

  Call call_of(const Node &node) {
    Call call{node, {}, {}, {}, [this](Expr e) { return size(e); }};
    for (const Value *operand : node.operands)
      call.operands.push_back(operand ? &values_.at(operand) : nullptr);
    for (const auto &result : node.results) {
      call.dtypes.push_back(result->type.dtype);
      call.shapes.push_back(shape_of(result->type));
    }
    return call;
  }

  /// Reads of operands as loads, and the means to evaluate them.
  struct Frame {
    std::vector<const Buffer *> buffers;
    std::vector<std::vector<int64_t>> shapes;
    std::unordered_map<const Buffer *, MemoryView> memory;
    std::vector<Expr> index;
    std::unordered_map<const Var *, Scalar> variables;
  };

  Frame frame_of(const Node &node, size_t rank) {
    Frame frame;
    for (const Value *operand : node.operands) {
      if (!operand) {
        frame.buffers.push_back(nullptr);
        frame.shapes.emplace_back();
        continue;
      }
      const Tensor &tensor = values_.at(operand);
      const Buffer *buffer = context_.new_buffer("operand", operand->type.dtype);
      frame.buffers.push_back(buffer);
      frame.shapes.push_back(tensor.shape);
      frame.memory[buffer] = {tensor.data.data(), element_count(tensor)};
    }
    for (size_t i = 0; i < rank; ++i)
      frame.index.push_back(add_variable(frame, DType::kI64, true));
    return frame;
  }

  Expr add_variable(Frame &frame, DType dtype, bool is_index) {
    Var *var = context_.new_var("value", dtype);
    var->is_index = is_index;
    frame.variables[var] = {};
    return context_.var(var);
  }

  ReadOperand reader_of(const Frame &frame) {
    return [this, &frame](int operand, std::span<const Expr> index, Expr mask) {
      Expr place = context_.integer(0);
      const std::vector<int64_t> &shape = frame.shapes[operand];
      OXYFUEL_CHECK(index.size() == shape.size(), "an element is read with an index of another rank");
      for (size_t i = 0; i < shape.size(); ++i)
        place = place * shape[i] + index[i];
      return context_.load(frame.buffers[operand], place, mask);
    };
  }

  Evaluation evaluation_of(Expr e, const Frame &frame) {
    return Evaluation(
        e,
        [&](const Var *var) {
          auto at = frame.variables.find(var);
          return at != frame.variables.end() ? &at->second : &symbols_.at(var);
        },
        [&](const Buffer *buffer) { return frame.memory.at(buffer); });
  }

  static void set(Frame &frame, Expr variable, Scalar value) { frame.variables[variable.var()] = value; }
  static void set_index(Frame &frame, size_t first, const std::vector<int64_t> &index) {
    for (size_t i = 0; i < index.size(); ++i)
      frame.variables[frame.index[first + i].var()].i = index[i];
  }

  Tensor run_elements(const Node &node) {
    const Type &type = node.result()->type;
    Tensor result = make_tensor(type.dtype, shape_of(type));
    Frame frame = frame_of(node, result.shape.size());
    ReadOperand read = reader_of(frame);
    Evaluation element = evaluation_of(element_of(context_, node, frame.index, read), frame);
    OXYFUEL_CHECK(element.dtype() == type.dtype, "element of " + std::string(node.op->name) + " has another type");
    Expr condition = check_of(context_, node, frame.index, read);
    Evaluation check = evaluation_of(condition ? condition : context_.boolean(true), frame);
    int64_t place = 0;
    for_each_index(result.shape, [&](const std::vector<int64_t> &index) {
      set_index(frame, 0, index);
      if (!check().i)
        throw CompileError(std::string(node.op->name) + ": an index is out of range, or a divisor is zero",
                           {node.location.place, "", "", ""});
      set_element(result, place++, element());
    });
    return result;
  }

  Tensor run_reduction(const Node &node) {
    const ReductionRule &rule = *node.op->reduction;
    const Tensor &x = values_.at(node.operands[0]);
    Tensor result = make_tensor(node.result()->type.dtype, shape_of(node.result()->type));
    std::vector<bool> is_folded(x.shape.size(), false);
    for (int64_t axis : node.get<std::vector<int64_t>>("axes"))
      is_folded[static_cast<size_t>(axis)] = true;
    std::vector<int64_t> folded;
    for (size_t i = 0; i < x.shape.size(); ++i)
      if (is_folded[i])
        folded.push_back(x.shape[i]);

    DType type = accumulator_of(node);
    Frame frame;
    Expr accumulator = add_variable(frame, type, false), element = add_variable(frame, type, false);
    Expr step = rule.better ? rule.better(accumulator, element) : rule.combine(accumulator, element);
    Evaluation fold = evaluation_of(step, frame);
    Scalar identity{};
    if (!rule.better)
      identity = evaluation_of(rule.identity(context_, type), frame)();

    int64_t place = 0;
    for_each_index(result.shape, [&](const std::vector<int64_t> &kept) {
      set(frame, accumulator, identity);
      int64_t position = 0, best = 0;
      for_each_index(folded, [&](const std::vector<int64_t> &inner) {
        std::vector<int64_t> index;
        for (size_t i = 0, a = 0, b = 0; i < x.shape.size(); ++i)
          index.push_back(is_folded[i] ? inner[a++] : kept[b++]);
        Scalar value = convert(element_at(x, flat_place(index, x.shape)), x.dtype, type);
        set(frame, element, value);
        if (!rule.better) {
          set(frame, accumulator, fold());
        } else if (position == 0 || fold().i) {
          set(frame, accumulator, value);
          best = position;
        }
        ++position;
      });
      Scalar value = frame.variables[accumulator.var()];
      if (rule.better)
        value.i = best;
      set_element(result, place++, convert(value, rule.better ? DType::kI64 : type, result.dtype));
    });
    return result;
  }

  std::vector<Tensor> operands_of(const Node &node, size_t first) {
    std::vector<Tensor> tensors;
    for (size_t i = first; i < node.operands.size(); ++i)
      tensors.push_back(node.operands[i] ? values_.at(node.operands[i]) : Tensor{});
    return tensors;
  }

  std::vector<Tensor> run_graph(const Node &node, std::string_view attribute, const std::vector<Tensor> &inputs) {
    return Interpreter(*node.get<std::shared_ptr<Graph>>(attribute), symbols_).run(inputs, nullptr);
  }

  std::vector<Tensor> run_region(const Node &node) {
    if (node.op->name == "group")
      return run_graph(node, "region", operands_of(node, 0));
    if (node.op->name == "cond") {
      bool is_true = integer_at(values_.at(node.operands[0]), 0) != 0;
      return run_graph(node, is_true ? "then" : "else", operands_of(node, 1));
    }
    if (node.op->name == "while") {
      // The first operands are carried, one a result; the others are read only.
      std::vector<Tensor> state = operands_of(node, 0);
      while (integer_at(run_graph(node, "condition", state)[0], 0)) {
        std::vector<Tensor> next = run_graph(node, "body", state);
        std::move(next.begin(), next.end(), state.begin());
      }
      state.resize(node.results.size());
      return state;
    }
    if (node.op->name == "recurrence")
      return run_recurrence(node);
    throw UnsupportedError("the interpreter does not run " + std::string(node.op->name));
  }

  std::vector<Tensor> run_recurrence(const Node &node) {
    Recurrence parts = recurrence_of(node);
    const std::vector<Tensor> operands = operands_of(node, 0);
    std::vector<Tensor> state(operands.begin(), operands.begin() + parts.carried), stacked;
    for (int i = 0; i < parts.stacked; ++i) {
      const Type &type = node.result(parts.carried + i)->type;
      stacked.push_back(make_tensor(type.dtype, shape_of(type)));
    }
    const int64_t length = size(parts.length);
    for (int64_t step = 0; step < length; ++step) {
      const auto time = static_cast<size_t>(parts.reverse ? length - 1 - step : step);
      std::vector<Tensor> inputs = state;
      for (size_t i = inputs.size(); i < operands.size(); ++i) {
        inputs.push_back(operands[i]);
        if (i >= static_cast<size_t>(parts.carried + parts.sequences))
          continue;
        Tensor &slice = inputs.back();
        const size_t bytes = slice.data.size() / static_cast<size_t>(slice.shape[0]);
        slice.shape.erase(slice.shape.begin());
        slice.data.assign(operands[i].data.begin() + static_cast<std::ptrdiff_t>(time * bytes),
                          operands[i].data.begin() + static_cast<std::ptrdiff_t>((time + 1) * bytes));
      }
      std::vector<Tensor> next = run_graph(node, "body", inputs);
      for (size_t i = 0; i < stacked.size(); ++i) {
        const std::vector<std::byte> &data = next[state.size() + i].data;
        std::copy(data.begin(), data.end(), stacked[i].data.begin() + static_cast<std::ptrdiff_t>(time * data.size()));
      }
      std::move(next.begin(), next.begin() + parts.carried, state.begin());
    }
    std::move(stacked.begin(), stacked.end(), std::back_inserter(state));
    return state;
  }

  const Graph &graph_;
  ExprContext &context_;
  std::unordered_map<const Var *, Scalar> &symbols_;
  std::unordered_map<const Value *, Tensor> values_;
};

} // namespace

std::vector<Tensor> interpret(const Graph &graph, const std::vector<Tensor> &inputs,
                              const std::vector<int64_t> &symbols, std::vector<Tensor> *mutated) {
  OXYFUEL_CHECK(symbols.size() == graph.symbols.size(), "number of symbols of graph @" + graph.name);
  std::unordered_map<const Var *, Scalar> values;
  for (size_t i = 0; i < symbols.size(); ++i)
    values[graph.symbols[i]].i = symbols[i];
  return Interpreter(graph, values).run(inputs, mutated);
}

} // namespace oxyfuel::graph
