// Walks over statements, for passes, printers and checks.
#pragma once

#include <type_traits>

#include "ir/loop/loop.h"

namespace oxyfuel::loop {

/// One callable out of several, for std::visit.
template <class... F> struct Overloaded : F... {
  using F::operator()...;
};
template <class... F> Overloaded(F...) -> Overloaded<F...>;

/// Calls `f(Expr &)` for each expression that `statement` itself holds (not those of nested blocks), empty ones left
/// out.
template <class S, class F> void for_each_expr(S &statement, const F &f) {
  const auto give = [&](auto &e) {
    if (e)
      f(e);
  };
  std::visit(Overloaded{[&](auto &s) {
               using T = std::remove_cvref_t<decltype(s)>;
               if constexpr (std::is_same_v<T, For>) {
                 give(s.begin);
                 give(s.extent);
               } else if constexpr (std::is_same_v<T, Store>) {
                 give(s.index);
                 give(s.value);
                 give(s.mask);
               } else if constexpr (std::is_same_v<T, Let>) {
                 give(s.value);
               } else if constexpr (std::is_same_v<T, If> || std::is_same_v<T, Check>) {
                 give(s.condition);
               } else if constexpr (std::is_same_v<T, TileContract>) {
                 give(s.extent);
                 give(s.a_index);
                 give(s.b_index);
                 give(s.b_col_limit);
               }
             }},
             statement.data);
}

/// Calls `f(Block &)` for each block nested directly in `statement`.
template <class S, class F> void for_each_block(S &statement, const F &f) {
  if (auto *loop = std::get_if<For>(&statement.data)) {
    f(loop->body);
  } else if (auto *branch = std::get_if<If>(&statement.data)) {
    f(branch->then_body);
    f(branch->else_body);
  }
}

/// Calls `f(Statement &)` for all statements of `block` and of nested blocks, outer ones first.
template <class B, class F> void for_each_statement(B &block, const F &f) {
  for (auto &statement : block) {
    f(*statement);
    for_each_block(*statement, [&](auto &inner) { for_each_statement(inner, f); });
  }
}

} // namespace oxyfuel::loop
