// Walks over the text of a graph: white space, comments, names, numbers, strings; errors with line and column.
#pragma once

#include <charconv>
#include <cstring>
#include <string>
#include <string_view>

#include "ir/graph/text.h"
#include "support/error.h"

namespace oxyfuel::graph {

class Reader {
public:
  explicit Reader(std::string_view text) : text_(text) {}

  size_t position() {
    skip();
    return at_;
  }
  void rewind(size_t position) { at_ = position; }
  bool at_end() { return position() == text_.size(); }
  char peek() { return at_end() ? '\0' : text_[at_]; }

  /// Takes `mark` (punctuation) when it comes next.
  bool accept(std::string_view mark) {
    skip();
    if (text_.substr(at_, mark.size()) != mark)
      return false;
    at_ += mark.size();
    return true;
  }
  void expect(std::string_view mark) {
    if (!accept(mark))
      fail("expected \"" + std::string(mark) + "\", found " + found());
  }
  /// Takes the name `word` when it comes next as a whole.
  bool accept_word(std::string_view word) {
    if (peek_name() != word)
      return false;
    at_ += word.size();
    return true;
  }
  std::string_view peek_name() {
    skip();
    size_t end = at_;
    while (end < text_.size() && is_name_character(text_[end]))
      ++end;
    return text_.substr(at_, end - at_);
  }
  std::string name(const char *what) {
    std::string_view word = peek_name();
    if (word.empty())
      fail(std::string("expected ") + what + ", found " + found());
    at_ += word.size();
    return std::string(word);
  }

  std::string string() {
    expect("\"");
    std::string value;
    for (;; ++at_) {
      if (at_ == text_.size() || text_[at_] == '\n')
        fail("string without end");
      char c = text_[at_];
      if (c == '"')
        break;
      if (c == '\\' && at_ + 1 < text_.size()) {
        c = text_[++at_];
        c = c == 'n' ? '\n' : c == 't' ? '\t' : c;
      }
      value += c;
    }
    ++at_;
    return value;
  }

  struct Number {
    bool is_real;
    int64_t integer;
    double real;
  };
  bool at_number() {
    char c = peek();
    std::string_view rest = text_.substr(at_ + (c == '-' ? 1 : 0));
    if (rest.empty())
      return false;
    if (std::isdigit(static_cast<unsigned char>(rest[0])))
      return true;
    std::string_view word = rest.substr(0, 3);
    return (word == "inf" || word == "nan") && (rest.size() == 3 || !is_name_character(rest[3]));
  }
  Number number() {
    skip();
    if (!at_number())
      fail("expected a number, found " + found());
    const char *begin = text_.data() + at_, *end = text_.data() + text_.size(), *stop = begin;
    while (stop < end &&
           (is_name_character(*stop) || ((*stop == '-' || *stop == '+') && (stop == begin || stop[-1] == 'e'))))
      ++stop;
    Number number{false, 0, 0};
    auto integer = std::from_chars(begin, stop, number.integer);
    if (integer.ptr != stop || integer.ec != std::errc()) {
      number.is_real = true;
      auto real = std::from_chars(begin, stop, number.real);
      if (real.ptr != stop || real.ec != std::errc())
        fail("not a number: \"" + std::string(begin, stop) + "\"");
    } else {
      number.real = static_cast<double>(number.integer);
    }
    at_ += stop - begin;
    return number;
  }
  int64_t integer() {
    size_t start = position();
    Number value = number();
    if (value.is_real)
      fail_at(start, "expected an integer");
    return value.integer;
  }

  /// Passes over a bracketed text that begins here.
  void skip_brackets() {
    int depth = 0;
    do {
      if (at_end())
        fail("bracket without end");
      char c = text_[at_++];
      depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
    } while (depth > 0);
  }

  [[noreturn]] void fail(const std::string &message) { fail_at(position(), message); }
  [[noreturn]] void fail_at(size_t position, const std::string &message) {
    size_t line = 1, line_start = 0;
    for (size_t i = 0; i < position; ++i)
      if (text_[i] == '\n') {
        ++line;
        line_start = i + 1;
      }
    throw CompileError(std::to_string(line) + ":" + std::to_string(position - line_start + 1) + ": " + message);
  }
  /// What comes next, for a message.
  std::string found() {
    if (at_end())
      return "the end of the text";
    std::string_view word = peek_name();
    return "\"" + std::string(word.empty() ? text_.substr(at_, 1) : word) + "\"";
  }

private:
  void skip() {
    while (at_ < text_.size()) {
      if (std::isspace(static_cast<unsigned char>(text_[at_]))) {
        ++at_;
      } else if (text_.substr(at_, 2) == "//") {
        while (at_ < text_.size() && text_[at_] != '\n')
          ++at_;
      } else {
        return;
      }
    }
  }

  std::string_view text_;
  size_t at_ = 0;
};

} // namespace oxyfuel::graph
