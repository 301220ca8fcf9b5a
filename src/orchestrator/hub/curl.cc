#include "orchestrator/hub/curl.h"

#include "base/shared_library.h"

namespace seqto::internal {
namespace {

Curl load() {
  const SharedLibrary library("hub", {"libcurl.so.4", "libcurl-gnutls.so.4"},
                              "libcurl was expected, which fetches files; install libcurl4");
  Curl c{};
  library.find("curl_global_init", c.global_init);
  library.find("curl_easy_init", c.easy_init);
  library.find("curl_easy_setopt", c.easy_setopt);
  library.find("curl_easy_perform", c.easy_perform);
  library.find("curl_easy_getinfo", c.easy_getinfo);
  library.find("curl_easy_strerror", c.easy_strerror);
  library.find("curl_easy_cleanup", c.easy_cleanup);
  c.global_init(CURL_GLOBAL_DEFAULT);
  return c;
}

}  // namespace

const Curl& curl() {
  static const Curl loaded = load();
  return loaded;
}

}  // namespace seqto::internal
