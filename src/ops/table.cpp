// Joins the tables of all files and finds operators and rules by name.
#include "ops/table.h"

#include <unordered_map>

#include "support/error.h"

namespace oxyfuel {

namespace {

struct Table {
  std::vector<const OpInfo *> ops;
  std::vector<AtenRule> rules; ///< one overload each
  std::unordered_map<std::string_view, const OpInfo *> op_by_name;
  std::unordered_map<std::string_view, size_t> rule_by_overload;

  Table() {
    for (OpTable (*part)() : {pointwise_arithmetic,
                              pointwise_compare,
                              pointwise_integer,
                              pointwise_math,
                              pointwise_bessel,
                              pointwise_activation,
                              pointwise_gradient,
                              pointwise_complex,
                              pointwise_cast,
                              view_ops,
                              indexed_ops,
                              window_ops,
                              gather_ops,
                              reduction_ops,
                              contraction_ops,
                              scatter_ops,
                              scan_ops,
                              sort_ops,
                              region_ops,
                              recurrence_ops,
                              aten_arithmetic,
                              aten_factory,
                              aten_view,
                              aten_pad,
                              aten_index,
                              aten_scatter,
                              aten_reduction,
                              aten_contraction,
                              aten_convolution,
                              aten_attention,
                              aten_norm,
                              aten_batch_norm,
                              aten_softmax,
                              aten_loss,
                              aten_loss_pair,
                              aten_regular,
                              aten_fold,
                              aten_grid_sample,
                              aten_pool,
                              aten_adaptive_pool,
                              aten_resize,
                              aten_recurrence,
                              aten_scan,
                              aten_sort,
                              aten_complex})
      add(part());
  }

  void add(const OpTable &part) {
    for (const OpInfo &info : part.ops) {
      ops.push_back(&info);
      OXYFUEL_CHECK(op_by_name.emplace(info.name, &info).second, "operator twice: " + std::string(info.name));
    }
    for (const AtenRule &rule : part.rules)
      for (std::string_view rest = rule.overload; !rest.empty();) {
        size_t end = rest.find(' ');
        std::string_view overload = rest.substr(0, end);
        rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
        if (overload.empty())
          continue;
        OXYFUEL_CHECK(rule_by_overload.emplace(overload, rules.size()).second, "rule twice: " + std::string(overload));
        rules.push_back({overload, rule.build});
      }
  }
};

const Table &table() {
  static const Table table;
  return table;
}

} // namespace

const OpInfo *find_op(std::string_view name) {
  auto at = table().op_by_name.find(name);
  return at == table().op_by_name.end() ? nullptr : at->second;
}

const OpInfo *op(std::string_view name) {
  const OpInfo *info = find_op(name);
  OXYFUEL_CHECK(info, "no operator " + std::string(name));
  return info;
}

std::vector<const OpInfo *> all_ops() { return table().ops; }

const AtenRule *find_rule(std::string_view overload) {
  auto at = table().rule_by_overload.find(overload);
  return at == table().rule_by_overload.end() ? nullptr : &table().rules[at->second];
}

std::vector<const AtenRule *> all_rules() {
  std::vector<const AtenRule *> result;
  for (const AtenRule &rule : table().rules)
    result.push_back(&rule);
  return result;
}

} // namespace oxyfuel
