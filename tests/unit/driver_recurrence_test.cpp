// Loops over time steps, compiled and interpreted.
#include <string>

#include "tests/unit/driver_support.h"

namespace oxyfuel {
namespace {

using testing::check;

const char *kSum = R"({body = graph @step(%a: f32[5], %v: f32[5]) {
      %0: f32[5] = add(%a, %v)
      return %0RETURNED
    }, carried = 1, sequences = 1, length = size(LENGTH), reverse = REVERSE})";

std::string with(std::string text, const std::string &from, const std::string &to) {
  for (size_t at; (at = text.find(from)) != std::string::npos;)
    text.replace(at, from.size(), to);
  return text;
}

std::string sum(const std::string &length, bool reverse, bool keeps) {
  return with(with(with(kSum, "LENGTH", length), "REVERSE", reverse ? "true" : "false"), "RETURNED",
              keeps ? ", %0" : "");
}

TEST(Recurrence, LastStateOnly) {
  for (bool reverse : {false, true})
    for (const char *length : {"1", "2", "7"})
      check(with("graph @main(%h: f32[5], %x: f32[T, 5]) {\n  %0: f32[5] = recurrence(%h, %x) ", "T", length) +
            sum(length, reverse, false) + "\n  return %0\n}");
}

TEST(Recurrence, StatesOfAllSteps) {
  for (bool reverse : {false, true})
    for (int64_t length : {1, 4, 9})
      check("graph @main(%h: f32[5], %x: f32[s0, 5]) symbols(s0 in [1, inf) hint 8) {\n"
            "  %0: f32[5], %1: f32[s0, 5] = recurrence(%h, %x) " +
                sum("s0", reverse, true) + "\n  %2: f32[s0, 5] = exp(%1)\n  return %0, %1, %2\n}",
            {length});
}

/// Carried values change places, one stays as it is, one is kept twice; views, a strided sequence, an output by itself.
TEST(Recurrence, WhatStepsHandOn) {
  for (const char *reverse : {"false", "true"})
    check(with(R"(graph @main(%a: f32[3, 4], %b: f32[3, 4], %x: f32[3, 6, 4], %w: f32[4]) {
    %0: f32[6, 3, 4] = permute(%x) {dims = [1, 0, 2]}
    %1: f32[3, 4], %2: f32[3, 4], %3: f32[6, 4, 3], %4: f32[6, 3, 4], %5: f32[6, 3, 4], %6: f32[6, 4] = recurrence(%a, %b, %0, %w) {body = graph @step(%a: f32[3, 4], %b: f32[3, 4], %x: f32[3, 4], %w: f32[4]) {
      %0: f32[3, 4] = mul(%x, %w)
      %1: f32[3, 4] = add(%a, %0)
      %2: f32[4, 3] = permute(%1) {dims = [1, 0]}
      %3: f32[4] = sum(%1) {axes = [0]}
      return %b, %1, %2, %1, %1, %3
    }, carried = 2, sequences = 1, length = size(6), reverse = REVERSE}
    return %1, %2, %3, %4, %5, %6
  })",
               "REVERSE", reverse));
}

/// The factor keeps errors from growing from step to step.
TEST(Recurrence, ProductWithTheState) {
  check(R"(graph @main(%h: f32[3, 33], %x: f32[11, 3, 33], %w: f32[33, 33] static) {
    %0: f32[3, 33], %1: f32[11, 3, 33] = recurrence(%h, %x, %w) {body = graph @step(%h: f32[3, 33], %x: f32[3, 33], %w: f32[33, 33]) {
      %0: f32[33, 33] = permute(%w) {dims = [1, 0]}
      %1: f32[3, 33] = matmul(%h, %0)
      %2: f32[] = constant() {value = 0.125, dtype = f32}
      %3: f32[3, 33] = mul(%1, %2)
      %4: f32[3, 33] = add(%3, %x)
      %5: f32[3, 33] = tanh(%4)
      return %5, %5
    }, carried = 1, sequences = 1, length = size(11)}
    %2: f32[3, 11, 33] = permute(%1) {dims = [1, 0, 2]}
    return %2, %0
  })",
        {}, 1e-5f);
}

TEST(Recurrence, InsideOfAnother) {
  for (int64_t length : {1, 5})
    check(R"(graph @main(%h: f32[4], %x: f32[s0, 3, 4]) symbols(s0 in [1, inf) hint 8) {
    %0: f32[4], %1: f32[s0, 3, 4] = recurrence(%h, %x) {body = graph @outer(%h: f32[4], %x: f32[3, 4]) {
      %0: f32[4], %1: f32[3, 4] = recurrence(%h, %x) {body = graph @inner(%h: f32[4], %x: f32[4]) {
        %0: f32[4] = mul(%h, %x)
        %1: f32[4] = sub(%x, %0)
        return %1, %0
      }, carried = 1, sequences = 1, length = size(3), reverse = true}
      %2: f32[4] = tanh(%0)
      return %2, %1
    }, carried = 1, sequences = 1, length = size(s0)}
    return %0, %1
  })",
          {length});
}

/// A value of rank 0, and steps that read nothing but it.
TEST(Recurrence, ScalarState) {
  check(R"(graph @main(%h: f32[]) {
    %0: f32[], %1: f32[12] = recurrence(%h) {body = graph @step(%h: f32[]) {
      %0: f32[] = sin(%h)
      return %0, %h
    }, carried = 1, length = size(12)}
    return %0, %1
  })");
}

} // namespace
} // namespace oxyfuel
