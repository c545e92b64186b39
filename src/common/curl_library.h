// libcurl, loaded when the process sends its first request. It brings some 25 libraries with it
// (LDAP, Kerberos, SSH, RTMP), which a server of models that lie on its disk does without.
#pragma once

#include <curl/curl.h>

#include "common/status.h"

namespace penstock {

// The functions of <curl/curl.h> that are used, without the prefix "curl_".
struct CurlLibrary {
  decltype(&curl_free) free;
  decltype(&curl_easy_init) easy_init;
  decltype(&curl_easy_reset) easy_reset;
  decltype(&curl_easy_cleanup) easy_cleanup;
  decltype(&curl_easy_setopt) easy_setopt;
  decltype(&curl_easy_getinfo) easy_getinfo;
  decltype(&curl_easy_perform) easy_perform;
  decltype(&curl_easy_strerror) easy_strerror;
  decltype(&curl_multi_init) multi_init;
  decltype(&curl_multi_cleanup) multi_cleanup;
  decltype(&curl_multi_add_handle) multi_add_handle;
  decltype(&curl_multi_remove_handle) multi_remove_handle;
  decltype(&curl_multi_perform) multi_perform;
  decltype(&curl_multi_poll) multi_poll;
  decltype(&curl_multi_info_read) multi_info_read;
  decltype(&curl_slist_append) slist_append;
  decltype(&curl_slist_free_all) slist_free_all;
  decltype(&curl_url) url;
  decltype(&curl_url_cleanup) url_cleanup;
  decltype(&curl_url_get) url_get;
  decltype(&curl_url_set) url_set;
};

// Loads the library and initializes it, once; any thread may call. kUnsupported: it is not there.
Status LoadCurl();

// Only after LoadCurl() was OK.
const CurlLibrary& Curl();

}  // namespace penstock
