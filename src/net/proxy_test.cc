#include "net/proxy.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

namespace penstock::net {
namespace {

class Proxy : public testing::Test {
 protected:
  static constexpr const char* kNames[] = {"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY",
                                           "all_proxy",  "ALL_PROXY",  "no_proxy",    "NO_PROXY"};
  void SetUp() override {
    for (const char* const name : kNames) {
      if (const char* const value = std::getenv(name)) before_[name] = value;
      unsetenv(name);
    }
  }
  void TearDown() override {
    for (const char* const name : kNames) unsetenv(name);
    for (const auto& [name, value] : before_) setenv(name.c_str(), value.c_str(), 1);
  }
  // "host:port", "" for none, or the error.
  static std::string Of(const char* url) {
    const auto proxy = ProxyFor(*ParseUrl(url));
    if (!proxy.ok()) return proxy.status().ToString();
    return *proxy ? (*proxy)->host + ":" + (*proxy)->port : "";
  }

 private:
  std::map<std::string, std::string> before_;
};

TEST_F(Proxy, IsTheOneOfTheScheme) {
  EXPECT_EQ(Of("http://a/"), "");
  setenv("http_proxy", "http://plain:3128/", 1);
  setenv("HTTPS_PROXY", "secure", 1);
  EXPECT_EQ(Of("http://a/"), "plain:3128");
  EXPECT_EQ(Of("https://a/"), "secure:1080");
  unsetenv("http_proxy");
  setenv("HTTP_PROXY", "http://stranger:1", 1);  // a client of CGI could set it
  EXPECT_EQ(Of("http://a/"), "");
  setenv("ALL_PROXY", "http://all:80", 1);
  EXPECT_EQ(Of("http://a/"), "all:80");
}

TEST_F(Proxy, HasExceptions) {
  setenv("all_proxy", "http://p:1", 1);
  setenv("no_proxy", "localhost, .Example.org,10.0.0.1", 1);
  for (const char* const url : {"http://localhost/", "http://example.org/", "http://a.example.org/",
                                "http://10.0.0.1:8000/"}) {
    EXPECT_EQ(Of(url), "") << url;
  }
  for (const char* const url : {"http://badexample.org/", "http://local/", "http://10.0.0.11/"}) {
    EXPECT_EQ(Of(url), "p:1") << url;
  }
  setenv("no_proxy", "10.32.0.0/11 fd00::/7,[::1],192.168.1.0/33,10.1.0.0/x,/8,", 1);
  for (const char* const url :
       {"http://10.63.255.255/", "http://[fd12::1]/", "http://[fc00::]:8000/", "http://[::1]/"}) {
    EXPECT_EQ(Of(url), "") << url;
  }
  for (const char* const url :
       {"http://10.64.0.0/", "http://[fe00::1]/", "http://[::2]/", "http://192.168.1.0/",
        "http://10.1.0.0/", "http://10.32.0.0.example/"}) {
    EXPECT_EQ(Of(url), "p:1") << url;
  }
  setenv("no_proxy", "*", 1);
  EXPECT_EQ(Of("http://a/"), "");
}

TEST_F(Proxy, OtherKindsAreRefusedByName) {
  setenv("all_proxy", "socks5h://p:1080", 1);
  EXPECT_NE(Of("http://a/").find("socks5h"), std::string::npos);
}

}  // namespace
}  // namespace penstock::net
