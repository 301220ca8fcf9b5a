// Independent steps side by side, their results taken in order.
#pragma once

#include <cstddef>
#include <functional>

namespace seqto {

// Calls work(0) ... work(count - 1) on up to `jobs` threads, and done(i) on this thread, in order, as soon as work(i)
// and all before it are through. What work or done throws ends the rest: no new work is begun, what runs is waited for,
// then the first exception in order is thrown.
void for_each_in_order(size_t count, size_t jobs, const std::function<void(size_t)>& work,
                       const std::function<void(size_t)>& done);

}  // namespace seqto
