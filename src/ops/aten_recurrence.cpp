// LSTM, GRU and plain recurrent layers: a product with the input for all time steps at once, then a loop over time that
// holds the product with the state and the gates. Gates are computed in op-math precision; states are rounded once a
// step.
#include "ops/compose.h"
#include "ops/recurrence.h"
#include "ops/table.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

enum class CellKind { kLstm, kGru, kTanh, kRelu };

/// What the layers of a call have in common.
struct Layers {
  CellKind kind;
  bool has_biases, is_bidirectional, is_batch_first;
  int count;
  int parameters_each; ///< a layer and direction
  DType dtype;
  int states() const { return kind == CellKind::kLstm ? 2 : 1; }
  int directions() const { return is_bidirectional ? 2 : 1; }
};

struct Parameters {
  graph::Value *input, *state;                               ///< [gates * hidden, …]
  graph::Value *input_bias = nullptr, *state_bias = nullptr; ///< [gates * hidden]
  graph::Value *projection = nullptr;                        ///< [projected, hidden]
};

Parameters parameters_of(const Layers &layers, const Values &all, int number) {
  auto own = all.begin() + number * layers.parameters_each;
  Parameters parameters{own[0], own[1]};
  int next = 2;
  if (layers.has_biases)
    parameters.input_bias = own[2], parameters.state_bias = own[3], next = 4;
  if (layers.parameters_each > next)
    parameters.projection = own[next];
  return parameters;
}

Term matrix_product(Term x, graph::Value *weight, DType result) {
  return {x.b, x.b->matmul(x.value, x.b->permute(weight, {1, 0}), result)};
}

Term sigmoid(Term x) { return x.apply("sigmoid"); }
Term tanh(Term x) { return x.apply("tanh"); }

/// Writes the body of one layer and direction. All terms are in op-math precision but the states, which are in the
/// call's own.
class Cell {
public:
  Cell(GraphBuilder &outer, const Layers &layers, const Parameters &parameters)
      : outer_(outer), layers_(layers), body_(std::make_shared<graph::Graph>(outer.graph().shared_context())),
        b_(*body_, outer.location()) {
    body_->name = "step";
    math_ = opmath_of(layers.dtype);
    parameters_ = parameters;
  }

  /// `gates`: [time, batch, gates * hidden], what the input adds; `states`: first values, [batch, …].
  graph::Node *run(Term gates, const Values &states, bool reverse) {
    operands_ = states;
    operands_.push_back(gates.value);
    std::vector<Term> state;
    for (graph::Value *first : states)
      state.push_back(term(b_, body_->add_input(first->type, state.empty() ? "h" : "c")));
    graph::Type step = gates.value->type;
    step.shape.erase(step.shape.begin());
    Term x = term(b_, body_->add_input(step, "x"));
    hidden_ = floor_div(x.size(1), gate_count());
    graph::Value *weight = invariant(parameters_.state, "w");
    Term product = matrix_product(state[0], weight, math_);
    Values next;
    switch (layers_.kind) {
    case CellKind::kLstm: next = lstm(x + product, state[1].to(math_)); break;
    case CellKind::kGru: next = gru(x, product, state[0].to(math_)); break;
    case CellKind::kTanh: next = {tanh(x + product).to(layers_.dtype).value}; break;
    case CellKind::kRelu: next = {(x + product).apply("relu").to(layers_.dtype).value}; break;
    }
    body_->outputs = next;
    body_->outputs.push_back(next[0]);
    return outer_.make_node("recurrence", operands_,
                            {{"body", body_},
                             {"carried", static_cast<int64_t>(states.size())},
                             {"sequences", int64_t(1)},
                             {"length", gates.size(0)},
                             {"reverse", reverse}});
  }

  int64_t gate_count() const { return layers_.kind == CellKind::kLstm ? 4 : layers_.kind == CellKind::kGru ? 3 : 1; }

private:
  graph::Value *invariant(graph::Value *outer, const char *name) {
    operands_.push_back(outer);
    return body_->add_input(outer->type, name);
  }
  Term gate(Term all, int i) { return all.slice(1, hidden_ * i, hidden_); }

  Values lstm(Term gates, Term c) {
    Term next_c = sigmoid(gate(gates, 1)) * c + sigmoid(gate(gates, 0)) * tanh(gate(gates, 2));
    Term h = sigmoid(gate(gates, 3)) * tanh(next_c);
    if (parameters_.projection)
      h = matrix_product(h.to(layers_.dtype), invariant(parameters_.projection, "p"), math_);
    return {h.to(layers_.dtype).value, next_c.to(layers_.dtype).value};
  }

  /// The state's bias of the new value lies inside of the reset gate's factor.
  Values gru(Term x, Term product, Term h) {
    if (parameters_.state_bias)
      product = product + term(b_, invariant(parameters_.state_bias, "b")).to(math_);
    Term reset = sigmoid(gate(x, 0) + gate(product, 0)), update = sigmoid(gate(x, 1) + gate(product, 1));
    Term fresh = tanh(gate(x, 2) + reset * gate(product, 2));
    return {(fresh + update * (h - fresh)).to(layers_.dtype).value};
  }

  GraphBuilder &outer_;
  const Layers &layers_;
  Parameters parameters_;
  std::shared_ptr<graph::Graph> body_;
  GraphBuilder b_;
  Values operands_;
  DType math_;
  Expr hidden_;
};

/// What the input adds to the gates of all steps, [time, batch, gates * hidden]. `x` is [time, batch, …], or [batch,
/// time, …] with `is_batch_first`: the product takes the rows as they lie.
Term input_gates(Term x, const Layers &layers, const Parameters &parameters, bool is_batch_first) {
  DType math = opmath_of(layers.dtype);
  Term rows = x.reshape({x.size(0) * x.size(1), x.size(2)});
  Term gates = matrix_product(rows, parameters.input, math);
  if (parameters.input_bias) {
    Term bias = term(*x.b, parameters.input_bias).to(math);
    if (layers.kind != CellKind::kGru)
      bias = bias + term(*x.b, parameters.state_bias).to(math);
    gates = gates + bias;
  }
  gates = gates.reshape({x.size(0), x.size(1), gates.size(1)});
  return is_batch_first ? gates.permute({1, 0, 2}) : gates;
}

Term concatenate(const std::vector<Term> &parts, int axis) {
  if (parts.size() == 1)
    return parts[0];
  Values values;
  for (const Term &part : parts)
    values.push_back(part.value);
  return {parts[0].b, parts[0].b->make("concat", values, {{"axis", int64_t(axis)}})};
}

/// The output, then the last states of all layers and directions, stacked.
Values run_layers(GraphBuilder &b, const Layers &layers, Term x, const Values &first_states, const Values &parameters) {
  bool is_batch_first = layers.is_batch_first;
  std::vector<std::vector<Term>> last(first_states.size());
  for (int layer = 0; layer < layers.count; ++layer) {
    std::vector<Term> outputs;
    for (int direction = 0; direction < layers.directions(); ++direction) {
      int number = layer * layers.directions() + direction;
      Parameters own = parameters_of(layers, parameters, number);
      Values states;
      for (graph::Value *first : first_states)
        states.push_back(term(b, first).select(0, b.context().integer(number)).value);
      graph::Node *node = Cell(b, layers, own).run(input_gates(x, layers, own, is_batch_first), states, direction == 1);
      for (size_t i = 0; i < last.size(); ++i)
        last[i].push_back(term(b, node->result(static_cast<int>(i))).unsqueeze(0));
      outputs.push_back(term(b, node->result(static_cast<int>(last.size()))));
    }
    x = concatenate(outputs, 2);
    is_batch_first = false;
  }
  Values results{layers.is_batch_first ? x.permute({1, 0, 2}).value : x.value};
  for (const std::vector<Term> &states : last)
    results.push_back(concatenate(states, 0).value);
  return results;
}

Values import_layers(GraphBuilder &b, const AtenCall &call, CellKind kind, const Values &states, int flags) {
  Term x = term(b, call.value(0));
  Layers layers{kind,
                call.boolean(flags),
                call.boolean(flags + 2),
                call.boolean(flags + 3),
                static_cast<int>(call.integer(flags + 1)),
                0,
                x.dtype()};
  Values parameters = call.values(2);
  int parts = layers.count * layers.directions();
  if (x.rank() != 3 || parts < 1 || parameters.size() % static_cast<size_t>(parts) != 0)
    throw UnsupportedError(call.overload + " of a packed sequence or of unknown layers");
  layers.parameters_each = static_cast<int>(parameters.size()) / parts;
  int expected = layers.has_biases ? 4 : 2;
  if (layers.parameters_each != expected && (kind != CellKind::kLstm || layers.parameters_each != expected + 1))
    throw UnsupportedError(call.overload + " with " + std::to_string(layers.parameters_each) + " parameters a layer");
  for (graph::Value *value : parameters)
    if (!value || value->type.dtype != x.dtype())
      throw UnsupportedError(call.overload + " of mixed types");
  for (graph::Value *value : states)
    if (!value || value->type.dtype != x.dtype())
      throw UnsupportedError(call.overload + " of mixed types");
  return run_layers(b, layers, x, states, parameters);
}

Values import_lstm(GraphBuilder &b, const AtenCall &call) {
  Values states = call.values(1);
  if (states.size() != 2)
    throw UnsupportedError(call.overload + " without two states");
  return import_layers(b, call, CellKind::kLstm, states, 3);
}

Values import_rnn(GraphBuilder &b, const AtenCall &call) {
  std::string kind = call.text(3);
  CellKind cell = kind == "gru" ? CellKind::kGru : kind == "rnn_tanh" ? CellKind::kTanh : CellKind::kRelu;
  if (cell == CellKind::kRelu && kind != "rnn_relu")
    throw UnsupportedError(call.overload + " of kind " + kind);
  return import_layers(b, call, cell, {call.value(1)}, 4);
}

constexpr AtenRule kRules[] = {
    {"oxyfuel.lstm.default", import_lstm},
    {"oxyfuel.rnn.default", import_rnn},
};

} // namespace

OpTable aten_recurrence() { return {{}, kRules}; }

} // namespace oxyfuel
