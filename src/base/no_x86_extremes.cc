// Extremes on other processors: whatever the compiler makes of the loop.
#include "base/extremes_loop.h"

namespace seqto::internal {
namespace {

void add_portable(const float* v, size_t n, Extremes& e) { extremes_loop(v, n, e); }
void clip_portable(const float* in, size_t n, float low, float high, float* out) { clip_loop(in, n, low, high, out); }

void magnitude_portable(const float* v, size_t n, uint32_t& smallest) { magnitude_loop(v, n, smallest); }

}  // namespace

RangeFunctions choose_range_functions() { return {add_portable, clip_portable, magnitude_portable}; }

}  // namespace seqto::internal
