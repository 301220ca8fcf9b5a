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

// Calls work(begin, end) for parts that together are 0 to `count`, of at least `least` each, side by side on all cores.
// What does not depend on where a part ends gives the same result on any machine.
void in_parts(size_t count, size_t least, const std::function<void(size_t begin, size_t end)>& work);

}  // namespace seqto
