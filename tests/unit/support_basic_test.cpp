// Hashing, files, memory and processor facts.
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/cpu.h"
#include "support/file.h"
#include "support/memory.h"
#include "support/sha256.h"

namespace oxyfuel {
namespace {

std::string digest_of(const std::string &text) { return hex(sha256(text.data(), text.size())); }

TEST(Sha256, KnownAnswers) { // FIPS 180-4 examples
  EXPECT_EQ(digest_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(digest_of(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesGiveTheSameAsTheWhole) {
  const std::string text(1000, 'x');
  for (size_t piece : {1, 7, 63, 64, 65, 999}) {
    Sha256 hash;
    for (size_t i = 0; i < text.size(); i += piece)
      hash.update(text.substr(i, piece));
    EXPECT_EQ(hex(hash.finish()), digest_of(text)) << piece;
  }
}

TEST(Sha256, FieldsKeepTheirBorders) {
  EXPECT_NE(hex(Sha256().field("ab").field("c").finish()), hex(Sha256().field("a").field("bc").finish()));
}

class FileTest : public testing::Test {
protected:
  FileTest() {
    char name[] = "/tmp/oxyfuel-test-XXXXXX";
    directory_ = mkdtemp(name);
  }
  ~FileTest() override { std::filesystem::remove_all(directory_); }
  std::string directory_;
};

TEST_F(FileTest, WriteAndReadBack) {
  const std::string path = directory_ + "/file", text = "some bytes\0and more";
  ASSERT_TRUE(write_file(path, text.data(), text.size()));
  std::string read;
  ASSERT_TRUE(read_file(path, read));
  EXPECT_EQ(read, text);
  ASSERT_TRUE(write_file(path, "", 0));
  ASSERT_TRUE(read_file(path, read));
  EXPECT_EQ(read, "");
  EXPECT_TRUE(is_private_file(path));
  size_t files = 0;
  for ([[maybe_unused]] auto &entry : std::filesystem::directory_iterator(directory_))
    ++files;
  EXPECT_EQ(files, 1u); // no drafts are left behind
}

TEST_F(FileTest, Refusals) {
  std::string text;
  EXPECT_FALSE(read_file(directory_ + "/absent", text));
  EXPECT_FALSE(read_file(directory_, text));
  EXPECT_FALSE(write_file(directory_ + "/absent/file", "x", 1));
  EXPECT_FALSE(is_private_file(directory_));
  MappedFile mapped;
  EXPECT_FALSE(mapped.open(directory_ + "/absent"));
}

TEST_F(FileTest, PrivateDirectories) {
  std::string message;
  const std::string path = directory_ + "/a/b/c";
  ASSERT_TRUE(make_private_directory(path, message)) << message;
  ASSERT_TRUE(make_private_directory(path, message)) << message; // again
  struct stat status;
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  chmod(path.c_str(), 0777);
  EXPECT_FALSE(make_private_directory(path, message));
  EXPECT_NE(message.find("may be written by other users"), std::string::npos) << message;
  ASSERT_TRUE(write_file(directory_ + "/file", "x", 1));
  EXPECT_FALSE(make_private_directory(directory_ + "/file", message));
  EXPECT_FALSE(make_private_directory(directory_ + "/file/below", message));
  ASSERT_EQ(symlink(directory_.c_str(), (directory_ + "/link").c_str()), 0);
  EXPECT_FALSE(make_private_directory(directory_ + "/link", message));
}

TEST_F(FileTest, Mapping) {
  const std::string path = directory_ + "/file";
  ASSERT_TRUE(write_file(path, "abc", 3));
  MappedFile mapped;
  ASSERT_TRUE(mapped.open(path));
  EXPECT_EQ(std::memcmp(mapped.data(), "abc", 3), 0);
  EXPECT_EQ(mapped.size(), 3u);
  ASSERT_TRUE(write_file(path, "", 0));
  ASSERT_TRUE(mapped.open(path));
  EXPECT_EQ(mapped.size(), 0u);
}

TEST(Memory, AlignedBlocks) {
  AlignedMemory memory;
  ASSERT_TRUE(memory.reserve(100));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % 64, 0u);
  EXPECT_GE(memory.size(), 100u);
  const uint8_t *first = memory.data();
  ASSERT_TRUE(memory.reserve(50));
  EXPECT_EQ(memory.data(), first);
  ASSERT_TRUE(memory.reserve(5 << 20));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % (2 << 20), 0u);
  memory.data()[(5 << 20) - 1] = 1;
  EXPECT_FALSE(memory.reserve(SIZE_MAX - 10));
  EXPECT_EQ(memory.size(), 0u);
  ASSERT_TRUE(memory.reserve(64));
}

#if defined(__x86_64__)
TEST(Memory, CodeRuns) {
  const uint8_t code[] = {0xb8, 0x2a, 0, 0, 0, 0xc3}; // mov eax, 42; ret
  ExecutableMemory memory;
  ASSERT_TRUE(memory.allocate(sizeof code));
  std::memcpy(memory.data(), code, sizeof code);
  ASSERT_TRUE(memory.seal());
  EXPECT_EQ(reinterpret_cast<int (*)()>(memory.data())(), 42);
}
#endif

TEST(Cpu, Facts) {
  const CpuInfo &info = cpu_info();
  EXPECT_GE(info.l1_data_bytes, 8u << 10);
  EXPECT_GE(info.l2_bytes, info.l1_data_bytes);
  EXPECT_EQ(describe_features(static_cast<uint32_t>(CpuFeature::kAvx2) | static_cast<uint32_t>(CpuFeature::kFma)),
            "avx2+fma");
  EXPECT_EQ(describe_features(0), "");
#if defined(__x86_64__)
  EXPECT_EQ(info.has(CpuFeature::kAvx2), __builtin_cpu_supports("avx2") != 0);
  EXPECT_EQ(info.has(CpuFeature::kFma), __builtin_cpu_supports("fma") != 0);
  EXPECT_EQ(info.has(CpuFeature::kAvx512Vnni), __builtin_cpu_supports("avx512vnni") != 0);
  EXPECT_EQ(info.has(CpuFeature::kAvx512Bf16), __builtin_cpu_supports("avx512bf16") != 0);
#endif
}

TEST(Cpu, Quota) {
  EXPECT_EQ(parse_cpu_max("max 100000\n"), 0);
  EXPECT_EQ(parse_cpu_max("150000 100000\n"), 1.5);
  EXPECT_EQ(parse_cpu_max(""), 0);
  EXPECT_EQ(parse_cpu_max("garbage"), 0);
  EXPECT_GE(usable_cpu_count(), 1);
  EXPECT_LE(usable_cpu_count(), affinity_cpu_count());
}

TEST(Cpu, FloatControlRoundTrips) {
  const uint32_t before = float_control();
  set_float_control(before);
  EXPECT_EQ(float_control(), before);
}

} // namespace
} // namespace oxyfuel
