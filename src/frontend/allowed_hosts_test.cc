#include "frontend/allowed_hosts.h"

#include <gtest/gtest.h>

namespace penstock::frontend {
namespace {

TEST(AllowedHosts, LoopbackAddressesAndNames) {
  for (const char* host : {"127.0.0.1", "127.9.9.9", "::1", "localhost", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "no.such.host.invalid", ""}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

TEST(AllowedHosts, WithoutAListEveryHost) {
  const AllowedHosts any({}, false, "0.0.0.0");
  for (const char* host : {"", "h", "evil.example", "1.2.3.4"}) EXPECT_TRUE(any.Allows(host));
}

TEST(AllowedHosts, LocalOnlyWhatNoStrangerCanOwn) {
  const AllowedHosts local({}, true, "box.lan");
  for (const char* host : {"", "localhost", "127.0.0.1", "127.1.2.3", "::1", "192.168.1.7",
                           "fe80::1", "a.localhost", "box.lan"}) {
    EXPECT_TRUE(local.Allows(host)) << host;
  }
  for (const char* host :
       {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "1.2.3.4.nip.io",
        "xbox.lan", "127.1", "printer.local", ".", "h", "ai", "wpad", "localhost2"}) {
    EXPECT_FALSE(local.Allows(host)) << host;
  }
}

TEST(AllowedHosts, AListIsHeld) {
  const std::vector<std::string> names = {"api.example", "*.Example.ORG", "10.0.0.1", "[::2]",
                                          "fe80::9"};
  ASSERT_TRUE(AllowedHosts::Check(names).ok());
  const AllowedHosts hosts(names, true, "127.0.0.1");
  for (const char* host : {"api.example", "a.example.org", "a.b.example.org", "10.0.0.1", "::2",
                           "fe80::9", "localhost", "127.0.0.1", "::1"}) {
    EXPECT_TRUE(hosts.Allows(host)) << host;
  }
  for (const char* host : {"example.org", "aexample.org", "xapi.example", "h", "10.0.0.2"}) {
    EXPECT_FALSE(hosts.Allows(host)) << host;
  }
  EXPECT_TRUE(AllowedHosts({"a", "*"}, true, "127.0.0.1").Allows("evil.example"));
}

TEST(AllowedHosts, NamesThatAreNoneAreRefused) {
  for (const char* name :
       {"", "*.", "a b", "https://a", "a:80", "[::1]:80", "a.*", "**", "*a", "a/b"}) {
    const Status status = AllowedHosts::Check({"good", name});
    EXPECT_EQ(status.field(), "allowed_hosts") << name;
  }
}

}  // namespace
}  // namespace penstock::frontend
