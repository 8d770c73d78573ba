// The heuristic for loops groups.
//
// Model: a vector along an axis moves `lanes` elements an instruction where the stride is 1, one where it is 0 (a
// splat), and costs about one load a lane where it is a gather. So the vector axis is the one with the most unit
// strides, stores counting double; ties go to the innermost. Tasks take about 10 µs at one vector operation a
// nanosecond: well under the 100 µs after which stealing helps little, well over the 0.1 µs that a claim costs.
#include "schedule/loop_schedule.h"

#include <algorithm>

namespace oxyfuel {
namespace {

constexpr int64_t kTaskVectorOperations = 8192;
constexpr int64_t kChunkSteps = 128; // a running sum of at most this many terms, then a tree: error stays near pairwise

double axis_score(const LoopProblem &problem, int axis, int lanes) {
  double score = 0;
  for (const LoopAccess &access : problem.accesses) {
    double weight = access.is_store ? 2 : 1;
    std::optional<int64_t> stride = access.strides[axis];
    if (!stride)
      score -= 4 * weight;
    else if (*stride == 1)
      score += 2 * weight;
    else if (*stride == 0)
      score += access.is_store ? 0 : 1;
    else
      score -= 2 * weight;
  }
  double fill = std::min<double>(1, static_cast<double>(problem.extents[axis]) / lanes);
  // A folded vector axis ends in a tree of shuffles; worth it only when the row is long.
  double tail = problem.is_folded[axis] && problem.extents[axis] < 4 * lanes ? 0.5 : 0;
  return score > 0 ? (score - tail) * fill : score;
}

int64_t power_of_two_at_most(int64_t n) {
  int64_t p = 1;
  while (p * 2 <= n)
    p *= 2;
  return p;
}

} // namespace

LoopSchedule choose(const LoopProblem &problem, const Machine &machine) {
  LoopSchedule schedule;
  int rank = static_cast<int>(problem.extents.size());
  int lanes = std::max(1, machine.lanes(problem.lane_bytes));
  double best = -1e30;
  for (int axis = rank - 1; axis >= 0; --axis) {
    double score = axis_score(problem, axis, lanes);
    if (score > best + 1e-9) {
      best = score;
      schedule.vector_axis = axis;
    }
  }
  auto largest_stride = [&](int axis) {
    int64_t stride = 0;
    for (const LoopAccess &access : problem.accesses)
      if (access.strides[axis])
        stride = std::max(stride, std::abs(*access.strides[axis]) * (access.is_store ? 4 : 1));
    return stride;
  };
  for (int axis = 0; axis < rank; ++axis)
    if (axis != schedule.vector_axis)
      (problem.is_folded[axis] ? schedule.folded : schedule.outer).push_back(axis);
  std::stable_sort(schedule.folded.begin(), schedule.folded.end(),
                   [&](int a, int b) { return largest_stride(a) > largest_stride(b); });
  if (schedule.vector_axis < 0)
    return schedule;

  int64_t extent = std::max<int64_t>(1, problem.extents[schedule.vector_axis]);
  schedule.is_vector_folded = problem.is_folded[schedule.vector_axis];
  schedule.width = lanes;
  bool is_short = problem.is_static[schedule.vector_axis] && extent < lanes;
  if (is_short && !machine.has_masks)
    schedule.width = static_cast<int>(power_of_two_at_most(extent));
  else if (is_short)
    while (schedule.width / 2 >= extent)
      schedule.width /= 2;

  int64_t folded_steps = 1;
  for (int axis : schedule.folded)
    folded_steps *= std::max<int64_t>(1, problem.extents[axis]);
  int64_t cost = std::max(1, problem.cost);
  if (schedule.is_vector_folded) {
    // Several vectors hide the latency of additions. A mathematical function has enough to do in one, and several of
    // them run out of registers.
    schedule.unroll = extent >= 4 * schedule.width ? 4 : 1;
    for (bool calls : problem.calls_functions)
      schedule.level_unroll.push_back(calls ? 1 : schedule.unroll);
    int64_t steps = (extent + schedule.width - 1) / schedule.width * folded_steps; // at most: some loops do not unroll
    schedule.chunk = steps > 2 * kChunkSteps ? kChunkSteps : 0;
    int64_t row = steps * cost;
    schedule.grain = std::max<int64_t>(1, kTaskVectorOperations / std::max<int64_t>(1, row));
    return schedule;
  }
  bool folds = std::find(problem.is_folded.begin(), problem.is_folded.end(), true) != problem.is_folded.end();
  if (folds) {
    schedule.unroll = extent >= 4 * schedule.width ? 4 : extent >= 2 * schedule.width ? 2 : 1;
    schedule.block = static_cast<int64_t>(schedule.width) * schedule.unroll;
    int64_t last = schedule.folded.empty() ? 1 : problem.extents[schedule.folded.back()];
    schedule.chunk = folded_steps > 2 * kChunkSteps ? std::min<int64_t>(kChunkSteps, std::max<int64_t>(1, last)) : 0;
    int64_t work = schedule.unroll * folded_steps * cost;
    schedule.grain = std::max<int64_t>(1, kTaskVectorOperations / std::max<int64_t>(1, work));
    return schedule;
  }
  // About kTaskVectorOperations a task, but no longer than the axis.
  int64_t vectors = std::max<int64_t>(1, kTaskVectorOperations / cost);
  int64_t axis_vectors = (extent + schedule.width - 1) / schedule.width;
  int64_t block_vectors = power_of_two_at_most(std::min(vectors, std::max<int64_t>(1, axis_vectors)));
  if (block_vectors < axis_vectors && problem.is_static[schedule.vector_axis] && axis_vectors <= vectors)
    block_vectors = axis_vectors;
  schedule.block = block_vectors * schedule.width;
  schedule.grain = std::max<int64_t>(1, kTaskVectorOperations / (block_vectors * cost));
  return schedule;
}

std::string LoopSchedule::text() const {
  auto list = [](const std::vector<int> &axes) {
    std::string text = "[";
    for (size_t i = 0; i < axes.size(); ++i)
      text += (i ? ", " : "") + std::to_string(axes[i]);
    return text + "]";
  };
  return "loops {outer = " + list(outer) + ", folded = " + list(folded) + ", vector = " + std::to_string(vector_axis) +
         (is_vector_folded ? " folded" : "") + ", width = " + std::to_string(width) +
         ", unroll = " + (is_vector_folded ? list(level_unroll) : std::to_string(unroll)) +
         ", block = " + std::to_string(block) + ", chunk = " + std::to_string(chunk) +
         ", grain = " + std::to_string(grain) +
         (parts > 1 ? ", split " + std::to_string(split_axis) + " in " + std::to_string(parts) : "") + "}";
}

} // namespace oxyfuel
