#include "base/parallel.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace seqto {

void for_each_in_order(size_t count, size_t jobs, const std::function<void(size_t)>& work,
                       const std::function<void(size_t)>& done) {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<bool> finished(count);
  std::vector<std::exception_ptr> errors(count);
  size_t next = 0;
  bool stop = false;
  const auto run = [&] {
    for (std::unique_lock lock(mutex); !stop && next < count;) {
      const size_t i = next++;
      lock.unlock();
      std::exception_ptr error;
      try {
        work(i);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      errors[i] = error;
      finished[i] = true;
      changed.notify_all();
    }
  };
  std::vector<std::thread> threads;
  try {
    for (size_t j = 0; j < std::min(std::max<size_t>(1, jobs), count); ++j) threads.emplace_back(run);
  } catch (const std::system_error&) {  // the system gives no more of them
    if (threads.empty()) run();
  }
  std::exception_ptr failed;
  for (size_t i = 0; i < count && !failed; ++i) {
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return finished[i]; });
      failed = errors[i];
    }
    if (failed) break;
    try {
      done(i);
    } catch (...) {
      failed = std::current_exception();
    }
  }
  {
    std::lock_guard lock(mutex);
    stop = true;
  }
  for (std::thread& thread : threads) thread.join();
  if (failed) std::rethrow_exception(failed);
}

void in_parts(size_t count, size_t least, const std::function<void(size_t begin, size_t end)>& work) {
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  const size_t parts = std::clamp<size_t>(count / std::max<size_t>(1, least), 1, cores);
  if (parts == 1) return work(0, count);
  for_each_in_order(parts, parts, [&](size_t i) { work(count * i / parts, count * (i + 1) / parts); }, [](size_t) {});
}

}  // namespace seqto
