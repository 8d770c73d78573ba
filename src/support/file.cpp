#include "support/file.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace oxyfuel {
namespace {

template <class Container> bool read_into(const std::string &path, Container &bytes) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return false;
  struct stat status;
  bool good = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  if (good)
    bytes.resize(static_cast<size_t>(status.st_size));
  for (size_t done = 0; good && done < bytes.size();) {
    const ssize_t count = ::read(file, bytes.data() + done, bytes.size() - done);
    if (count > 0)
      done += static_cast<size_t>(count);
    else if (count == 0)
      bytes.resize(done); // it shrank meanwhile
    else
      good = errno == EINTR;
  }
  ::close(file);
  return good;
}

bool write_all(int file, const uint8_t *data, size_t size) {
  while (size > 0) {
    const ssize_t count = ::write(file, data, size);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return false;
    data += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

bool others_may_write(const struct stat &status) { return (status.st_mode & (S_IWGRP | S_IWOTH)) != 0; }

} // namespace

bool read_file(const std::string &path, std::vector<uint8_t> &bytes) { return read_into(path, bytes); }
bool read_file(const std::string &path, std::string &text) { return read_into(path, text); }

bool write_file(const std::string &path, const void *data, size_t size) {
  static std::atomic<uint64_t> counter{0};
  const std::string draft = path + ".tmp-" + std::to_string(getpid()) + "-" + std::to_string(counter++);
  const int file = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0)
    return false;
  bool good = write_all(file, static_cast<const uint8_t *>(data), size);
  int problem = errno;
  if (::close(file) != 0 && good) {
    good = false;
    problem = errno;
  }
  if (good && std::rename(draft.c_str(), path.c_str()) == 0)
    return true;
  if (good)
    problem = errno;
  ::unlink(draft.c_str());
  errno = problem;
  return false;
}

void touch_file(const std::string &path) { utimensat(AT_FDCWD, path.c_str(), nullptr, 0); }

bool make_private_directory(const std::string &path, std::string &message) {
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string parent = path.substr(0, slash);
    if (mkdir(parent.c_str(), 0700) != 0 && errno != EEXIST) {
      message = "cannot make directory " + parent + ": " + std::strerror(errno);
      return false;
    }
    if (slash == std::string::npos)
      break;
  }
  struct stat status;
  if (lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode))
    message = path + " is not a directory";
  else if (status.st_uid != geteuid())
    message = path + " belongs to user " + std::to_string(status.st_uid) + ", not to this process's user " +
              std::to_string(geteuid());
  else if (others_may_write(status))
    message = path + " may be written by other users; chmod 700 it";
  else
    return true;
  return false;
}

bool is_private_file(const std::string &path) {
  struct stat status;
  return lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
         !others_may_write(status);
}

MappedFile::~MappedFile() { close(); }
MappedFile::MappedFile(MappedFile &&other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

bool MappedFile::open(const std::string &path) {
  close();
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return false;
  struct stat status;
  bool good = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  if (good && status.st_size > 0) {
    void *pages = mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_PRIVATE, file, 0);
    good = pages != MAP_FAILED;
    if (good) {
      data_ = static_cast<uint8_t *>(pages);
      size_ = static_cast<size_t>(status.st_size);
    }
  }
  ::close(file);
  return good;
}

void MappedFile::close() {
  if (data_)
    munmap(data_, size_);
  data_ = nullptr;
  size_ = 0;
}

} // namespace oxyfuel
