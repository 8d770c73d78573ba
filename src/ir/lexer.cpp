#include <algorithm>
#include <charconv>

#include "ir/expr_parse.h"
#include "support/error.h"

namespace oxyfuel {

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_'; }

Lexer::Lexer(std::string_view text) : text_(text) { scan(); }

void Lexer::scan() {
  const auto at = [&](size_t i) { return i < text_.size() ? text_[i] : '\0'; };
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == '#')
      position_ = std::min(text_.find('\n', position_), text_.size());
    else if (c == ' ' || c == '\n' || c == '\t' || c == '\r')
      ++position_;
    else
      break;
  }
  const size_t start = position_;
  const auto take = [&](Kind kind, size_t skip, size_t end) {
    token_ = {kind, text_.substr(start + skip, end - start - skip), start};
    position_ = end;
  };
  const auto name_end = [&](size_t i) {
    while (is_name(at(i)) || (at(i) == '.' && is_name(at(i + 1))))
      ++i;
    return i;
  };
  if (start >= text_.size())
    return take(Kind::kEnd, 0, start);
  const char c = text_[start];
  if (c == '%' && is_name(at(start + 1)))
    return take(Kind::kVariable, 1, name_end(start + 1));
  if (c == '@')
    return take(Kind::kSymbol, 1, name_end(start + 1));
  if (c == '$' && is_digit(at(start + 1)))
    return take(Kind::kMacro, 0, name_end(start + 1));
  if (is_digit(c)) {
    size_t end = start;
    while (is_digit(at(end)) || at(end) == '.')
      ++end;
    if (at(end) == 'e' &&
        (is_digit(at(end + 1)) || ((at(end + 1) == '-' || at(end + 1) == '+') && is_digit(at(end + 2))))) {
      end += 2;
      while (is_digit(at(end)))
        ++end;
    }
    return take(Kind::kNumber, 0, end);
  }
  if (is_name(c)) {
    size_t end = start;
    while (is_name(at(end)))
      ++end;
    return take(Kind::kWord, 0, end);
  }
  constexpr std::string_view pairs[] = {"==", "!=", "<=", ">=", "&&", "||", "<<", ">>", "//"};
  const std::string_view two = text_.substr(start, 2);
  const bool is_pair = std::find(std::begin(pairs), std::end(pairs), two) != std::end(pairs);
  take(Kind::kMark, 0, start + (is_pair ? 2 : 1));
}

Lexer::Token Lexer::next() {
  const Token result = token_;
  end_of_last_ = position_;
  scan();
  return result;
}

bool Lexer::at(std::string_view mark_or_word) const {
  return (token_.kind == Kind::kMark || token_.kind == Kind::kWord) && token_.text == mark_or_word;
}

bool Lexer::accept(std::string_view mark_or_word) {
  if (!at(mark_or_word))
    return false;
  next();
  return true;
}

void Lexer::expect(std::string_view mark_or_word) {
  if (!accept(mark_or_word))
    fail("expected \"" + std::string(mark_or_word) + "\", found " + found());
}

Lexer::Token Lexer::expect(Kind kind, const char *what) {
  if (token_.kind != kind)
    fail("expected " + std::string(what) + ", found " + found());
  return next();
}

int64_t Lexer::integer(bool allow_infinite) {
  const bool is_negative = accept("-");
  if (allow_infinite && accept("inf"))
    return is_negative ? INT64_MIN : INT64_MAX;
  const Token token = expect(Kind::kNumber, "an integer");
  uint64_t magnitude = 0;
  const auto [end, error] = std::from_chars(token.text.begin(), token.text.end(), magnitude);
  if (error != std::errc() || end != token.text.end() || magnitude > (uint64_t{1} << 63) - (is_negative ? 0 : 1))
    fail_at(token.position, "\"" + std::string(token.text) + "\" is not an integer of 64 bits");
  return static_cast<int64_t>(is_negative ? ~magnitude + 1 : magnitude);
}

DType Lexer::dtype() {
  DType dtype;
  if (token_.kind != Kind::kWord || !parse_dtype(token_.text, dtype))
    fail("expected an element type, found " + found());
  next();
  return dtype;
}

std::string Lexer::found() const {
  if (token_.kind == Kind::kEnd)
    return "the end of the text";
  const size_t end = std::min(text_.find_first_of(" \n\t", position_), position_);
  return "\"" + std::string(text_.substr(token_.position, end - token_.position)) + "\"";
}

void Lexer::fail_at(size_t position, const std::string &message) const {
  const std::string_view before = text_.substr(0, position);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  Error::Parts parts;
  parts.where = "line " + std::to_string(line) + ":" + std::to_string(position - start + 1);
  const size_t end = std::min(text_.find('\n', position), text_.size());
  parts.found = std::string(text_.substr(start, end - start));
  throw CompileError(std::to_string(line) + ":" + std::to_string(position - start + 1) + ": " + message, parts);
}

} // namespace oxyfuel
