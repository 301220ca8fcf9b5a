// Extremes on other processors: whatever the compiler makes of the loop.
#include "base/extremes_loop.h"

namespace seqto::internal {
namespace {

void add_portable(const float* v, size_t n, Extremes& e) { extremes_loop(v, n, e); }
void clip_portable(const float* in, size_t n, float low, float high, float* out) { clip_loop(in, n, low, high, out); }

}  // namespace

RangeFunctions choose_range_functions() { return {add_portable, clip_portable}; }

}  // namespace seqto::internal
