// The C interface as a user of it sees it: results, errors, ends.
#include "library/penstock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "json/json.h"

namespace penstock::library {
namespace {

using testing::HasSubstr;

constexpr char kEmbedder[] = R"({"model": ")" PENSTOCK_GOLDEN_DIR R"(/models/bert_mean_normalize",
                                "threads": 2, "dtype": "f32"})";
constexpr char kDecoder[] =
    R"({"model": ")" PENSTOCK_GOLDEN_DIR R"(/decoders/llama", "threads": 2})";

// Texts end to end, with offsets of 64 bits.
class Texts {
 public:
  explicit Texts(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      bytes_ += text;
      offsets_.push_back(static_cast<int64_t>(bytes_.size()));
    }
  }
  penstock_texts view() const {
    return {bytes_.data(), offsets_.data(), static_cast<int64_t>(offsets_.size()) - 1, 64};
  }

 private:
  std::string bytes_;
  std::vector<int64_t> offsets_ = {0};
};

class PenstockTest : public testing::Test {
 protected:
  ~PenstockTest() override {
    for (penstock_call* const call : calls_) penstock_free(call);
    penstock_close(models_);
  }

  void Open(const char* options) {
    penstock_error* error = nullptr;
    models_ = penstock_open(options, &error);
    ASSERT_NE(models_, nullptr) << penstock_error_message(error);
  }
  // Freed at the end of the test.
  penstock_call* Keep(penstock_call* call) {
    calls_.push_back(call);
    return call;
  }
  penstock_call* Embed(const std::vector<std::string>& texts, const char* request = nullptr) {
    const Texts given(texts);
    const penstock_texts view = given.view();
    return Keep(penstock_embed(models_, &view, request));
  }
  penstock_call* Post(const char* path, const std::string& body) {
    return Keep(penstock_request(models_, "POST", path, nullptr, body.data(), body.size()));
  }
  // The rows of a call that is to succeed.
  static std::vector<float> Rows(penstock_call* call) {
    EXPECT_EQ(penstock_wait(call, -1), PENSTOCK_ENDED);
    penstock_view view{};
    if (penstock_result(call, &view) != PENSTOCK_ENDED) {
      ADD_FAILURE() << penstock_error_message(penstock_call_error(call));
      return {};
    }
    EXPECT_EQ(view.bytes, view.rows * view.columns * 4);
    const auto* const data = static_cast<const float*>(view.data);
    return {data, data + view.rows * view.columns};
  }
  // The whole answer of a route, its parts joined.
  static std::pair<int, std::string> Answer(penstock_call* call, int* parts = nullptr) {
    std::string text;
    penstock_view view{};
    for (;;) {
      penstock_wait(call, -1);
      const int state = penstock_result(call, &view);
      if (state == PENSTOCK_RUNNING) continue;
      if (state == PENSTOCK_FAILED) {
        return {-1, penstock_error_message(penstock_call_error(call))};
      }
      text.append(static_cast<const char*>(view.data), static_cast<size_t>(view.bytes));
      if (parts != nullptr) ++*parts;
      if (state == PENSTOCK_ENDED) return {view.status, text};
    }
  }
  // "code: message (field)" of a call that is to fail.
  static std::string Failure(penstock_call* call) {
    EXPECT_EQ(penstock_wait(call, -1), PENSTOCK_FAILED);
    penstock_view view{};
    EXPECT_EQ(penstock_result(call, &view), PENSTOCK_FAILED);
    const penstock_error* const error = penstock_call_error(call);
    if (error == nullptr) return "";
    return std::string(penstock_error_code(error)) + ": " + penstock_error_message(error) + " (" +
           penstock_error_field(error) + ")";
  }

  penstock_models* models_ = nullptr;
  std::vector<penstock_call*> calls_;
};

std::string OpenFailure(const char* options) {
  penstock_error* error = nullptr;
  penstock_models* const models = penstock_open(options, &error);
  EXPECT_EQ(models, nullptr);
  penstock_close(models);
  const std::string text = std::string(penstock_error_code(error)) + " (" +
                           penstock_error_field(error) + "): " + penstock_error_message(error);
  penstock_error_free(error);
  return text;
}

TEST_F(PenstockTest, SaysItsVersion) {
  EXPECT_EQ(penstock_abi(), static_cast<uint32_t>(PENSTOCK_ABI));
  EXPECT_STREQ(penstock_version(), PENSTOCK_VERSION);
}

TEST_F(PenstockTest, EmbedsWithTheBitsOfTheRoute) {
  Open(kEmbedder);
  const std::vector<std::string> texts = {"That is a happy person", "", "Ünïcode, 漢字"};
  const std::vector<float> rows = Rows(Embed(texts));
  const auto [status, answer] =
      Answer(Post("/embed", R"({"inputs": ["That is a happy person", "", "Ünïcode, 漢字"]})"));
  ASSERT_EQ(status, 200) << answer;
  const auto document = JsonDocument::Parse(answer);
  ASSERT_TRUE(document.ok());
  JsonArray outer;
  ASSERT_TRUE(document->root().Get(&outer));
  std::vector<float> said;
  for (const JsonElement row : outer) {
    JsonArray numbers;
    ASSERT_TRUE(row.Get(&numbers));
    for (const JsonElement number : numbers) {
      double value = 0;
      ASSERT_TRUE(number.Get(&value));
      said.push_back(static_cast<float>(value));
    }
  }
  EXPECT_EQ(said, rows);
}

TEST_F(PenstockTest, TakesArrowsOffsetsOf32Bits) {
  Open(kEmbedder);
  const int32_t offsets[] = {3, 8, 8, 15};
  const penstock_texts narrow = {"...hellogoodbye", offsets, 3, 32};
  const std::vector<float> rows = Rows(Keep(penstock_embed(models_, &narrow, nullptr)));
  EXPECT_EQ(rows, Rows(Embed({"hello", "", "goodbye"})));
  const penstock_texts none = {nullptr, nullptr, 0, 64};
  EXPECT_EQ(Failure(Keep(penstock_embed(models_, &none, nullptr))).substr(0, 16),
            "invalid_argument");
}

TEST_F(PenstockTest, CutsAndNormalizesAsAsked) {
  Open(kEmbedder);
  EXPECT_EQ(Rows(Embed({"a"}, R"({"dimensions": 4, "priority": "bulk"})")).size(), 4u);
  const std::vector<float> raw = Rows(Embed({"a"}, R"({"normalize": false})"));
  float sum = 0;
  for (const float number : raw) sum += number * number;
  EXPECT_GT(std::abs(sum - 1), 1e-3);
  penstock_view view{};
  penstock_call* const call = Embed({"hello"});
  penstock_wait(call, -1);
  ASSERT_EQ(penstock_result(call, &view), PENSTOCK_ENDED);
  EXPECT_THAT(view.info, HasSubstr(R"("prompt_tokens":)"));
  // The result can be taken again.
  const void* const data = view.data;
  ASSERT_EQ(penstock_result(call, &view), PENSTOCK_ENDED);
  EXPECT_EQ(view.data, data);
}

TEST_F(PenstockTest, RefusesBadTextsAndFieldsByName) {
  Open(kEmbedder);
  EXPECT_EQ(Failure(Embed({"a", "\xff"})), "invalid_argument: inputs[1] is not UTF-8 (inputs[1])");
  EXPECT_THAT(Failure(Embed({"a"}, R"({"dimension": 3})")), HasSubstr("(dimension)"));
  EXPECT_THAT(Failure(Embed({"a"}, R"({"dimensions": 0})")), HasSubstr("(dimensions)"));
  EXPECT_THAT(Failure(Embed({"a"}, R"({"priority": "high"})")), HasSubstr("(priority)"));
  EXPECT_THAT(Failure(Embed({"a"}, "[]")), HasSubstr("invalid_argument"));
  EXPECT_THAT(Failure(Embed({"a"}, R"({"model": "another"})")), HasSubstr("not_found"));
  for (const auto& [from, to] : {std::pair(-1, 2), {3, 2}}) {
    const int64_t offsets[] = {from, to};
    const penstock_texts wrong = {"abcd", offsets, 1, 64};
    EXPECT_THAT(Failure(Keep(penstock_embed(models_, &wrong, nullptr))),
                HasSubstr("(texts.offsets)"));
  }
  const int64_t offsets[] = {0, 1};
  const penstock_texts bits = {"a", offsets, 1, 16};
  EXPECT_THAT(Failure(Keep(penstock_embed(models_, &bits, nullptr))), HasSubstr("offset_bits"));
}

TEST_F(PenstockTest, RefusesOptionsByName) {
  EXPECT_THAT(OpenFailure(R"({"modell": "x"})"), HasSubstr("invalid_argument (modell)"));
  EXPECT_THAT(OpenFailure(R"({"dtype": "f31"})"), HasSubstr("invalid_argument (dtype)"));
  EXPECT_THAT(OpenFailure(R"({"threads": 1.5})"), HasSubstr("invalid_argument (threads)"));
  EXPECT_THAT(OpenFailure(R"({"threads": {}})"), HasSubstr("invalid_argument (threads)"));
  EXPECT_THAT(OpenFailure(R"({"config": "/etc/passwd"})"), HasSubstr("(config)"));
  EXPECT_THAT(OpenFailure(R"({"port": 80})"), HasSubstr("(port)"));
  EXPECT_THAT(OpenFailure("[]"), HasSubstr("object"));
  EXPECT_THAT(OpenFailure("{"), HasSubstr("invalid_argument"));
  penstock_error_free(nullptr);
  EXPECT_EQ(penstock_open("{", nullptr), nullptr);
}

TEST_F(PenstockTest, AModelThatIsNotThereIsAnErrorOfTheCall) {
  Open(R"({"model": "no-such-owner/no-such-model", "auto-pull": false})");
  EXPECT_THAT(Failure(Embed({"a"})), HasSubstr("not in the cache"));
}

TEST_F(PenstockTest, AFolderThatIsNotThereIsRefused) {
  EXPECT_THAT(OpenFailure(R"({"model": "/there/is/no/such/model"})"),
              HasSubstr("no model folder at /there/is/no/such/model"));
}

TEST_F(PenstockTest, AnswersOfRoutesAreThoseOfTheServer) {
  Open(kEmbedder);
  EXPECT_EQ(Answer(Keep(penstock_request(models_, "GET", "/livez", nullptr, nullptr, 0))).first,
            200);
  const auto [missing, text] = Answer(Post("/v1/nothing", "{}"));
  EXPECT_EQ(missing, 404);
  EXPECT_THAT(text, HasSubstr("there is no route"));
  EXPECT_EQ(Answer(Post("/v1/embeddings", "{")).first, 400);
  EXPECT_EQ(Answer(Keep(penstock_request(models_, "GET", "no slash", nullptr, nullptr, 0))).first,
            400);
  const std::string body = R"({"input": "x"})";
  EXPECT_THAT(Answer(Keep(penstock_request(models_, "POST", "/v1/embeddings",
                                           "X-Penstock-Priority: loud", body.data(), body.size())))
                  .second,
              HasSubstr("X-Penstock-Priority"));
  EXPECT_THAT(Failure(Keep(penstock_request(models_, "GET", "/", "no colon", nullptr, 0))),
              HasSubstr("(headers)"));
}

// Texts as long as the context, a hundred of them: a good while for a tiny model.
std::string LongCompletions(const char* more) {
  std::string prompts = "\"a\"";
  for (int i = 1; i < 100; ++i) prompts += ", \"a\"";
  return R"({"prompt": [)" + prompts + R"(], "max_tokens": 200, "ignore_eos": true)" + more + "}";
}

TEST_F(PenstockTest, StreamsTextInParts) {
  Open(kDecoder);
  int parts = 0;
  const auto [status, text] =
      Answer(Post("/v1/completions", LongCompletions(R"(, "stream": true)")), &parts);
  EXPECT_EQ(status, 200) << text;
  EXPECT_GT(parts, 1);
  EXPECT_THAT(text, HasSubstr("data: [DONE]"));
  // The result of a stream that has ended is empty from then on.
  penstock_view view{};
  EXPECT_EQ(penstock_result(calls_.back(), &view), PENSTOCK_ENDED);
  EXPECT_EQ(view.bytes, 0);
  EXPECT_STREQ(view.content_type, "text/event-stream");
}

TEST_F(PenstockTest, AStreamIsWholeHoweverSlowlyItIsRead) {
  Open(kDecoder);
  penstock_call* const call = Post("/v1/completions", LongCompletions(R"(, "stream": true)"));
  // Time for more than a part takes, and for the last of it: what is tested is the late reader.
  std::this_thread::sleep_for(std::chrono::seconds(3));
  const auto [status, text] = Answer(call);
  EXPECT_EQ(status, 200);
  EXPECT_GT(text.size(), 64u << 10);
  EXPECT_THAT(text, testing::EndsWith("data: [DONE]\n\n"));
}

TEST_F(PenstockTest, LinesComeWithoutABound) {
  Open(kEmbedder);
  std::string inputs = "\"a\"";
  for (int i = 1; i < 2000; ++i) inputs += ", \"text " + std::to_string(i) + "\"";
  const std::string body = R"({"inputs": [)" + inputs + "]}";
  const auto [status, text] = Answer(Keep(penstock_request(
      models_, "POST", "/embed", "Accept: application/x-ndjson", body.data(), body.size())));
  EXPECT_EQ(status, 200);
  EXPECT_GT(text.size(), 600u << 10);
}

TEST_F(PenstockTest, CancelledCallsEndAtOnce) {
  Open(kDecoder);
  for (const char* const more : {"", R"(, "stream": true)"}) {
    penstock_call* const call = Post("/v1/completions", LongCompletions(more));
    penstock_cancel(call);
    EXPECT_EQ(penstock_wait(call, 0), PENSTOCK_FAILED);
    EXPECT_THAT(Failure(call), HasSubstr("cancelled"));
    penstock_cancel(call);
  }
}

TEST_F(PenstockTest, ClosingEndsCallsAndTheirHandlesStayValid) {
  Open(kDecoder);
  std::vector<penstock_call*> calls;
  for (int i = 0; i < 4; ++i) calls.push_back(Post("/v1/completions", LongCompletions("")));
  penstock_close(std::exchange(models_, nullptr));
  for (penstock_call* const call : calls) EXPECT_THAT(Failure(call), HasSubstr("closed"));
}

TEST_F(PenstockTest, ResultsOutliveTheModels) {
  Open(kEmbedder);
  penstock_call* const rows = Embed({"hello"});
  penstock_call* const answer = Post("/v1/embeddings", R"({"input": "hello"})");
  penstock_wait(rows, -1);
  penstock_wait(answer, -1);
  penstock_close(std::exchange(models_, nullptr));
  EXPECT_EQ(Rows(rows).size(), 32u);
  const auto [status, text] = Answer(answer);
  EXPECT_EQ(status, 200);
  EXPECT_THAT(text, HasSubstr("embedding"));
}

TEST_F(PenstockTest, NullIsAnError) {
  penstock_close(nullptr);
  penstock_free(nullptr);
  penstock_cancel(nullptr);
  penstock_view view{};
  EXPECT_EQ(penstock_wait(nullptr, 0), PENSTOCK_FAILED);
  EXPECT_EQ(penstock_result(nullptr, &view), PENSTOCK_FAILED);
  EXPECT_EQ(penstock_call_error(nullptr), nullptr);
  EXPECT_EQ(penstock_event_fd(nullptr), -1);
  EXPECT_EQ(penstock_next(nullptr), nullptr);
  EXPECT_THAT(Failure(Post("/", "x")), HasSubstr("models is NULL"));
  Open(kEmbedder);
  EXPECT_THAT(Failure(Keep(penstock_embed(models_, nullptr, nullptr))), HasSubstr("(input)"));
  EXPECT_THAT(Failure(Keep(penstock_request(models_, "POST", "/", nullptr, nullptr, 5))),
              HasSubstr("(input)"));
  EXPECT_EQ(penstock_result(Embed({"a"}), nullptr), PENSTOCK_FAILED);
}

TEST_F(PenstockTest, WaitsAndTextsHaveBounds) {
  Open(kEmbedder);
  EXPECT_EQ(penstock_wait(Embed({"a"}), INT64_MAX), PENSTOCK_ENDED);
  const std::vector<int32_t> offsets((1 << 20) + 2);
  const penstock_texts many = {"", offsets.data(), (1 << 20) + 1, 32};
  EXPECT_THAT(Failure(Keep(penstock_embed(models_, &many, nullptr))),
              HasSubstr("1048576 texts at most"));
}

// Threads work on, or a model is being loaded, when main() returns.
TEST_F(PenstockTest, AProcessMayEndWithModelsOpen) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto end = [this](bool waits) {
    Open(kEmbedder);
    penstock_call* const call = Embed({"hello", std::string(3000, 'x')});
    if (waits) penstock_wait(call, -1);
    std::exit(0);
  };
  for (int i = 0; i < 10; ++i) {
    EXPECT_EXIT(end(i % 2 == 0), testing::ExitedWithCode(0), "");
  }
}

TEST_F(PenstockTest, EventLoopsHearOfCalls) {
  Open(kEmbedder);
  const int descriptor = penstock_event_fd(models_);
  ASSERT_GE(descriptor, 0);
  EXPECT_EQ(penstock_next(models_), nullptr);
  std::vector<penstock_call*> waiting = {Embed({"a"}), Embed({"b"}), Embed({"a"}, "[]")};
  while (!waiting.empty()) {
    pollfd polled = {descriptor, POLLIN, 0};
    ASSERT_EQ(poll(&polled, 1, 20'000), 1);
    while (penstock_call* const call = penstock_next(models_)) {
      EXPECT_NE(penstock_wait(call, 0), PENSTOCK_RUNNING);
      EXPECT_EQ(std::erase(waiting, call), 1u);
    }
  }
  // A result that was taken is not told again, nor is a call that is freed.
  for (penstock_call* const call : calls_) {
    penstock_view view{};
    penstock_result(call, &view);
  }
  EXPECT_EQ(penstock_next(models_), nullptr);
  penstock_call* const freed = Embed({"c"});
  penstock_wait(freed, -1);
  penstock_free(freed);
  calls_.pop_back();
  EXPECT_EQ(penstock_next(models_), nullptr);
}

TEST_F(PenstockTest, AForkedProcessIsRefusedAtOnce) {
  Open(kEmbedder);
  penstock_call* const before = Embed({"hello"});
  Rows(before);
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    const Texts given({"hello"});
    const penstock_texts texts = given.view();
    penstock_call* const call = penstock_embed(models_, &texts, nullptr);
    const bool refused =
        penstock_wait(call, -1) == PENSTOCK_FAILED &&
        penstock_wait(before, -1) == PENSTOCK_FAILED &&
        std::strstr(penstock_error_message(penstock_call_error(call)), "before fork") != nullptr &&
        std::strstr(penstock_error_message(penstock_call_error(before)), "before fork") !=
            nullptr &&
        penstock_event_fd(models_) == -1;
    penstock_cancel(before);
    penstock_free(before);
    penstock_free(call);
    penstock_close(models_);
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(Rows(Embed({"hello"})), Rows(before));
}

// Actions of all signals, locale and limits of the process.
std::string StateOfProcess() {
  std::string state = std::setlocale(LC_ALL, nullptr);
  for (int number = 1; number < 32; ++number) {
    struct sigaction action {};
    sigaction(number, nullptr, &action);
    state += " " + std::to_string(reinterpret_cast<uintptr_t>(action.sa_handler));
  }
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  for (int number = 1; number < 32; ++number) state += sigismember(&blocked, number) ? "1" : "0";
  for (const auto what : {RLIMIT_NOFILE, RLIMIT_STACK, RLIMIT_CORE, RLIMIT_AS}) {
    rlimit limit{};
    getrlimit(what, &limit);
    state += " " + std::to_string(limit.rlim_cur);
  }
  return state;
}

TEST_F(PenstockTest, LeavesTheProcessAsItWas) {
  const std::string before = StateOfProcess();
  Open(kEmbedder);
  Rows(Embed({"hello"}));
  EXPECT_EQ(StateOfProcess(), before);
}

// Two threads share models that come and go; calls are cancelled and freed at any moment. `make asan`
// with PENSTOCK_LIBRARY_CYCLES=1000 in the environment looks for what is left behind.
TEST_F(PenstockTest, CallsEndAnywhere) {
  const char* const given = std::getenv("PENSTOCK_LIBRARY_CYCLES");
  const int cycles = given == nullptr ? 4 : std::atoi(given);
  std::mt19937 random(7);
  for (int cycle = 0; cycle < cycles; ++cycle) {
    Open(kEmbedder);
    const auto work = [this](uint32_t seed) {
      std::mt19937 mine(seed);
      const Texts given({"hello", "goodbye", std::string(400, 'x')});
      const penstock_texts texts = given.view();
      for (int i = 0; i < 60; ++i) {
        penstock_call* const call = penstock_embed(models_, &texts, nullptr);
        if (mine() % 2 == 0) penstock_wait(call, static_cast<int64_t>(mine() % 3));
        if (mine() % 2 == 0) penstock_cancel(call);
        penstock_view view{};
        if (penstock_result(call, &view) == PENSTOCK_ENDED) {
          EXPECT_EQ(view.rows, 3);
        }
        penstock_free(call);
      }
    };
    std::jthread other(work, random());
    work(random());
    other.join();
    penstock_close(std::exchange(models_, nullptr));
  }
}

}  // namespace
}  // namespace penstock::library
