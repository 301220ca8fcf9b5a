// Extremes on other processors: whatever the compiler makes of the loop.
#include "base/extremes_loop.h"

namespace seqto::internal {
namespace {

void add_portable(const float* v, size_t n, Extremes& e) { extremes_loop(v, n, e); }

}  // namespace

ExtremesFunction choose_extremes() { return add_portable; }

}  // namespace seqto::internal
