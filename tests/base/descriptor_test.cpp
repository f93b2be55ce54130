// A descriptor is closed once, by its owner.
#include "weft/base/files/descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <thread>

#include "weft/base/error.h"
#include "weft/base/files/readable_file.h"

namespace weft {
namespace {

bool is_open(int number) { return ::fcntl(number, F_GETFD) >= 0; }

TEST(Descriptor, ClosesWhatItOwnsAndNothingElse) {
  int number = -1;
  {
    Descriptor first(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    number = first.number();
    const Descriptor second(std::move(first));
    EXPECT_FALSE(first);
    EXPECT_EQ(second.number(), number);
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
  EXPECT_FALSE(Descriptor(::open("/does/not/exist", O_RDONLY)));
}

TEST(Descriptor, AssignmentClosesTheOldOne) {
  Descriptor one(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  Descriptor other(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int old = one.number();
  const int taken = other.number();
  one = std::move(other);
  EXPECT_FALSE(is_open(old));
  EXPECT_EQ(one.number(), taken);
  const int released = one.release();
  EXPECT_FALSE(one);
  EXPECT_TRUE(is_open(released));
  EXPECT_EQ(Descriptor(released).close(), 0);
}

TEST(WriteFully, WaitsForAReaderOfANonBlockingPipe) {
  PipeEnds pipe = make_pipe();
  ASSERT_EQ(::fcntl(pipe.writing.number(), F_SETFL, O_NONBLOCK), 0);
  const std::string text(1 << 20, 'x');
  std::string read;
  std::thread reader([&] {
    std::string part(1 << 16, '\0');
    for (ssize_t n = 0; (n = ::read(pipe.reading.number(), part.data(), part.size())) > 0;)
      read.append(part, 0, static_cast<std::size_t>(n));
  });
  EXPECT_EQ(write_fully(pipe.writing.number(), text), 0);
  pipe.writing.close();
  reader.join();
  EXPECT_EQ(read, text);
  const Descriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  EXPECT_EQ(write_fully(full.number(), "x"), ENOSPC);
}

TEST(ReadableFile, IsARegularFile) {
  EXPECT_THROW(ReadableFile("/dev/null"), Error);
  EXPECT_THROW(ReadableFile("/"), Error);
  EXPECT_THROW(ReadableFile("/does/not/exist"), Error);
}

}  // namespace
}  // namespace weft
