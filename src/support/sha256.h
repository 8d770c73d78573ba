// SHA-256 (FIPS 180-4): content addresses of kernels and artifacts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace oxyfuel {

class Sha256 {
public:
  using Digest = std::array<uint8_t, 32>;

  Sha256();
  Sha256 &update(const void *data, size_t size);
  Sha256 &update(std::string_view text) { return update(text.data(), text.size()); }
  /// Adds a text with its length before it, so that ("ab", "c") and ("a", "bc") differ.
  Sha256 &field(std::string_view text);
  /// The hash of all that was added. The object is spent afterwards.
  Digest finish();

private:
  void block(const uint8_t *bytes);
  uint32_t state_[8];
  uint64_t length_ = 0;
  uint8_t pending_[64];
};

Sha256::Digest sha256(const void *data, size_t size);
/// Lower-case hexadecimal, 64 characters.
std::string hex(const Sha256::Digest &digest);

} // namespace oxyfuel
