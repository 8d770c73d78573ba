// Pieces that the printer and the parser of Graph IR share: the spelling of sizes, numbers and strings.
//
// A size is written with bare symbol names: `s0 * 2 + 1`, `floor_div(s0, 8)`, `select(lt(s0, 4), s0, 4)`. Only sums,
// differences and products are infix; all else is a function (`size_function_name`), a cast is a type's name.
#pragma once

#include <cctype>
#include <functional>
#include <string>
#include <string_view>

#include "ir/expr.h"

namespace oxyfuel::graph {

inline bool is_name_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

/// The function that stands for a kind in the text of a size; empty when there is none.
std::string_view size_function_name(ExprKind kind);
/// The kind of that function; false when there is none.
bool find_size_function(std::string_view name, ExprKind &kind);

std::string print_size(Expr e, const std::function<std::string(const Var *)> &name_of_symbol);
/// The shortest text that reads back as the same double; always told from an integer: `1.0`, `-inf`, `nan`.
std::string print_real(double value);
/// In double quotes, with \" \\ \n \t escaped.
std::string quote(const std::string &text);

} // namespace oxyfuel::graph
