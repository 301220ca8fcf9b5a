#include "orchestrator/curl.h"

#include <dlfcn.h>

#include "seqto/error.h"

namespace seqto::internal {
namespace {

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (!function)
    throw Error(Code::kUnavailable, std::string("[hub] a libcurl without ") + name +
                                        " found; the distribution's was expected; install libcurl4");
}

Curl load() {
  void* library = nullptr;
  for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4"})
    if (!library) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw Error(Code::kUnavailable,
                "[hub] no libcurl found; libcurl.so.4 was expected, which fetches files; install libcurl4 (apt)");
  Curl c{};
  find(library, "curl_global_init", c.global_init);
  find(library, "curl_easy_init", c.easy_init);
  find(library, "curl_easy_setopt", c.easy_setopt);
  find(library, "curl_easy_perform", c.easy_perform);
  find(library, "curl_easy_getinfo", c.easy_getinfo);
  find(library, "curl_easy_strerror", c.easy_strerror);
  find(library, "curl_easy_cleanup", c.easy_cleanup);
  c.global_init(CURL_GLOBAL_DEFAULT);
  return c;
}

}  // namespace

const Curl& curl() {
  static const Curl loaded = load();
  return loaded;
}

}  // namespace seqto::internal
