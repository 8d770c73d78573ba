// The three classes of errors that the compiler raises. The runtime does not throw: it returns status codes
// (runtime/abi.h).
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace oxyfuel {

/// Base of all compiler errors. `what()` holds the summary line followed by one indented line for each part that is
/// set: `where` (place in the user's file), `found`, `so` (what happens instead), `hint` (what to do).
class Error : public std::runtime_error {
public:
  struct Parts {
    std::string where = {}, found = {}, so = {}, hint = {};
  };
  explicit Error(const std::string &summary) : std::runtime_error(summary) {}
  Error(const std::string &summary, const Parts &parts) : std::runtime_error(render(summary, parts)) {}

private:
  static std::string render(const std::string &summary, const Parts &parts) {
    std::string text = summary;
    auto line = [&](const char *label, const std::string &value) {
      if (!value.empty())
        text += "\n  " + std::string(label) + value;
    };
    line("where  ", parts.where);
    line("found  ", parts.found);
    line("so     ", parts.so);
    line("or     ", parts.hint);
    return text;
  }
};

/// Something that Oxyfuel does not compile: the caller runs it in PyTorch instead.
class UnsupportedError : public Error {
  using Error::Error;
};

/// The user's program is at fault.
class CompileError : public Error {
  using Error::Error;
};

/// A bug of ours.
class InternalError : public Error {
  using Error::Error;
};

/// Throws InternalError naming the place when `condition` is false. Checks that guard an invariant, not user input.
#define OXYFUEL_CHECK(condition, message)                                                                              \
  do {                                                                                                                 \
    if (!(condition))                                                                                                  \
      throw ::oxyfuel::InternalError(std::string(message) + " [" #condition "] (" __FILE__ ":" +                       \
                                     std::to_string(__LINE__) + ")");                                                  \
  } while (false)

} // namespace oxyfuel
