// The functions of libcurl that are used, found at run time: a program that fetches nothing needs no libcurl.
#pragma once

#define CURL_DISABLE_TYPECHECK
#define CURL_DISABLE_DEPRECATION  // the older names serve every release since 7.19
#include <curl/curl.h>
#undef curl_easy_setopt
#undef curl_easy_getinfo

namespace seqto::internal {

struct Curl {
  decltype(&::curl_global_init) global_init;
  decltype(&::curl_easy_init) easy_init;
  decltype(&::curl_easy_setopt) easy_setopt;
  decltype(&::curl_easy_perform) easy_perform;
  decltype(&::curl_easy_getinfo) easy_getinfo;
  decltype(&::curl_easy_strerror) easy_strerror;
  decltype(&::curl_easy_cleanup) easy_cleanup;
};

// Loads it once; throws Error{kUnavailable} where there is none.
const Curl& curl();

}  // namespace seqto::internal
