// Files of the cache and of artifacts: whole reads, atomic writes, private directories.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace oxyfuel {

/// Reads a whole regular file; false when it cannot be read.
bool read_file(const std::string &path, std::vector<uint8_t> &bytes);
bool read_file(const std::string &path, std::string &text);

/// Writes a file of mode 0600 beside its place and renames it there, so that readers see the old or the new contents
/// and never a part. False, with nothing left behind and `errno` set, on failure (no room, no permission).
bool write_file(const std::string &path, const void *data, size_t size);

/// Sets the file's time of modification to now; failure does no harm.
void touch_file(const std::string &path);

/// Makes a directory of mode 0700 with all its parents. False with a message unless it is a directory afterwards, owned
/// by this user, that nobody else may write to: other users could plant code there.
bool make_private_directory(const std::string &path, std::string &message);

/// True for a regular file that this user owns and nobody else may write to.
bool is_private_file(const std::string &path);

/// A read-only view of a file.
class MappedFile {
public:
  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile &&other) noexcept;
  MappedFile &operator=(MappedFile &&other) noexcept;

  /// False when the file cannot be opened or mapped. An empty file gives size 0.
  bool open(const std::string &path);
  const uint8_t *data() const { return data_; }
  size_t size() const { return size_; }

private:
  void close();
  uint8_t *data_ = nullptr;
  size_t size_ = 0;
};

} // namespace oxyfuel
