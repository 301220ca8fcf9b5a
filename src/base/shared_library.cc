#include "base/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "seqto/error.h"

namespace seqto {

SharedLibrary::SharedLibrary(std::string verb, std::initializer_list<const char*> names, const std::string& needed)
    : verb_(std::move(verb)) {
  std::string reason;
  for (const char* name : names) {
    handle_ = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle_) {
      name_ = name;
      return;
    }
    if (reason.empty()) reason = ::dlerror();
  }
  throw Error(Code::kUnavailable, fmt::format("[{}] {}; {}", verb_, reason, needed));
}

void* SharedLibrary::address(const char* symbol) const {
  void* found = ::dlsym(handle_, symbol);
  if (!found)
    throw Error(Code::kUnavailable, fmt::format("[{}] {} without {} found; the distribution's was expected; install it",
                                                verb_, name_, symbol));
  return found;
}

}  // namespace seqto
