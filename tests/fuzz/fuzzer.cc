// libFuzzer's side of it: SEQTO_FUZZ_TARGET says which target runs.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "fuzz/targets.h"

namespace {

using namespace seqto::fuzz;

const FuzzTarget* asked = nullptr;
bool reads_models() { return asked->name == "onnx" || asked->name == "external"; }

}  // namespace

extern "C" {

size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

int LLVMFuzzerInitialize(int*, char***) {
  const char* name = std::getenv("SEQTO_FUZZ_TARGET");
  for (const FuzzTarget& target : targets())
    if (name && target.name == name) asked = &target;
  if (asked) return 0;
  std::fputs("SEQTO_FUZZ_TARGET is none of:", stderr);
  for (const FuzzTarget& target : targets()) std::fprintf(stderr, " %s", target.name.data());
  std::fputs("\n", stderr);
  std::exit(2);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  asked->read({reinterpret_cast<const char*>(data), size});
  return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  // Some bytes at random all the same: what parses them is read too.
  if (!reads_models() || seed % 16 == 0) return LLVMFuzzerMutate(data, size, most);
  const std::string changed = mutate_model({reinterpret_cast<const char*>(data), size}, most, seed / 16);
  std::memcpy(data, changed.data(), changed.size());
  return changed.size();
}
}
