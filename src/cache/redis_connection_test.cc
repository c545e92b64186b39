// Against a server whose replies the test writes.
#include "cache/redis_connection.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "base/temp_folder_test_util.h"

namespace penstock::cache {
namespace {

using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

// Answers a PING, then the next request with `answer`, and keeps the connection open.
class OneAnswer {
 public:
  explicit OneAnswer(std::string answer) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, (folder_ / "socket").c_str());
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
    thread_ = std::thread([this, answer = std::move(answer)] {
      const int client = accept(listener_, nullptr, nullptr);
      char bytes[4096];
      std::string next = "+PONG\r\n";
      while (recv(client, bytes, sizeof bytes, 0) > 0) {
        send(client, next.data(), next.size(), MSG_NOSIGNAL);
        next = answer;
      }
      close(client);
    });
  }
  // After the connection was closed.
  ~OneAnswer() {
    thread_.join();
    close(listener_);
  }
  RedisUrl url() const { return *RedisUrl::Parse("unix://" + (folder_ / "socket")); }

 private:
  const TempFolder folder_;
  int listener_ = -1;
  std::thread thread_;
};

// The reply to a request; null: the connection has failed, *error says why.
RedisReplyPtr Ask(const std::string& answer, std::string* error) {
  const OneAnswer server(answer);
  RedisConnection connection;
  EXPECT_TRUE(connection.Open(server.url(), Clock::now() + seconds(10))) << connection.error();
  connection.Append({"MGET", "a", "b"});
  EXPECT_TRUE(connection.Flush(Clock::now() + seconds(10)));
  RedisReplyPtr reply = connection.Read(Clock::now() + seconds(1));
  *error = connection.error();
  connection.Close("the test ends");
  return reply;
}

TEST(RedisConnection, ReadsAnArray) {
  std::string error;
  const RedisReplyPtr reply = Ask("*2\r\n$1\r\na\r\n$-1\r\n", &error);
  ASSERT_NE(reply, nullptr) << error;
  ASSERT_EQ(reply->type, REDIS_REPLY_ARRAY);
  ASSERT_EQ(reply->elements, 2u);
  EXPECT_EQ(std::string(reply->element[0]->str, reply->element[0]->len), "a");
  EXPECT_EQ(reply->element[1]->type, REDIS_REPLY_NIL);
}

// hiredis allocates what an array claims, so the claim is limited: refused at once, not after the
// time-out.
TEST(RedisConnection, RefusesArraysThatAreTooLongOrNested) {
  for (const std::string answer : {"*65537\r\n", "*2147483647\r\n", "*1\r\n*1\r\n$1\r\na\r\n"}) {
    std::string error;
    EXPECT_EQ(Ask(answer, &error), nullptr) << answer;
    EXPECT_EQ(error, "Out of memory") << answer;
  }
}

}  // namespace
}  // namespace penstock::cache
