#include "base/shared_library.h"

#include <gtest/gtest.h>

#include "seqto/error.h"

namespace seqto {
namespace {

TEST(SharedLibrary, TakesTheFirstNameThatIsThere) {
  const SharedLibrary math("test", {"libnobody_has_this.so.9", "libm.so.6"}, "install it");
  double (*cosine)(double) = nullptr;
  math.find("cos", cosine);
  EXPECT_EQ(cosine(0), 1);
  EXPECT_THROW(math.find("no_such_function", cosine), Error);
}

TEST(SharedLibrary, SaysWhatIsMissingAndWhatToInstall) {
  try {
    SharedLibrary("data", {"libnobody_has_this.so.9"}, "it reads sounds; install libnobody9");
    FAIL() << "found";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUnavailable);
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with("[data] libnobody_has_this.so.9")) << text;
    EXPECT_TRUE(text.ends_with("it reads sounds; install libnobody9")) << text;
  }
}

}  // namespace
}  // namespace seqto
