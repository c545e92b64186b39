#include "http/accept.h"

#include <gtest/gtest.h>

namespace penstock::http {
namespace {

TEST(Accept, LinesAreForThoseWhoAskByName) {
  for (const char* accept :
       {"application/x-ndjson", "Application/X-NDJSON", "text/html, application/x-ndjson;q=0.5",
        "application/json, application/x-ndjson", "application/x-ndjson;q=0.5, */*",
        "application/json;q=0.4,application/x-ndjson ; q=0.4"}) {
    EXPECT_TRUE(WantsNdjson(accept)) << accept;
  }
  for (const char* accept :
       {"", "*/*", "application/*", "application/json", "application/x-ndjson;q=0",
        "application/x-ndjson;q=0.5, application/json", "application/x-ndjsonl", ",;,;"}) {
    EXPECT_FALSE(WantsNdjson(accept)) << accept;
  }
}

TEST(Accept, ThePageIsForBrowsers) {
  for (const char* accept :
       {"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/html",
        "application/json, TEXT/HTML", "application/json;q=0.1, text/html;q=0.2"}) {
    EXPECT_TRUE(WantsHtml(accept)) << accept;
  }
  for (const char* accept : {"", "*/*", "text/*", "application/json", "text/html;q=0",
                             "application/json, text/html;q=0.9", "text/htmlx"}) {
    EXPECT_FALSE(WantsHtml(accept)) << accept;
  }
}

TEST(Accept, GzipIsForThoseWhoAskByName) {
  for (const char* encodings : {"gzip", "gzip, deflate, br", "br;q=1.0, GZIP;q=0.5"}) {
    EXPECT_TRUE(AcceptsGzip(encodings)) << encodings;
  }
  for (const char* encodings : {"", "identity", "gzip;q=0", "*", "x-gzip"}) {
    EXPECT_FALSE(AcceptsGzip(encodings)) << encodings;
  }
}

}  // namespace
}  // namespace penstock::http
