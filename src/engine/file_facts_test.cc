#include "engine/file_facts.h"

#include <gtest/gtest.h>

#include "cpu/cpu_backend.h"
#include "engine/decoder_engine.h"
#include "engine/encoder_engine.h"

namespace penstock::engine {
namespace {

constexpr char kEncoder[] = PENSTOCK_GOLDEN_DIR "/models/bert_mean_normalize";
constexpr char kGguf[] = PENSTOCK_GOLDEN_DIR "/decoders/llama_gguf/llama-q8_0.gguf";

// The same as the model says itself, once it is loaded.
TEST(FileFacts, OfADecoderAreThoseOfTheLoadedModel) {
  const auto facts = ReadFileFacts(kGguf, "");
  ASSERT_TRUE(facts.ok()) << facts.status().ToString();
  metrics::Metrics metrics;
  auto backend = cpu::NewCpuBackend({.threads = 1, .pin = false});
  ASSERT_TRUE(backend.ok());
  const auto engine = DecoderEngine::Load(kGguf, {}, backend->get(), &metrics);
  ASSERT_TRUE(engine.ok()) << engine.status().ToString();
  EXPECT_TRUE(facts->generates);
  EXPECT_EQ(facts->path, kGguf);
  EXPECT_EQ(facts->architecture, (*engine)->model().decoder->config().architecture);
  EXPECT_EQ(facts->max_tokens, (*engine)->context());
  EXPECT_EQ(facts->hidden_size, (*engine)->info().hidden_size);
  EXPECT_EQ(facts->parameters, static_cast<int64_t>((*engine)->info().parameters));
  EXPECT_GT(facts->weight_bytes, 0);
  const auto& chat = (*engine)->chat_template(false);
  EXPECT_EQ(facts->chat, chat.ok());
  if (chat.ok()) {
    EXPECT_EQ(facts->chat_template, chat->source());
  }
}

TEST(FileFacts, OfAnEncoder) {
  const auto facts = ReadFileFacts(kEncoder, "");
  ASSERT_TRUE(facts.ok()) << facts.status().ToString();
  EXPECT_FALSE(facts->generates);
  EXPECT_FALSE(facts->chat);
  EXPECT_EQ(facts->architecture, "bert");
  EXPECT_GT(facts->max_tokens, 0);
  EXPECT_GT(facts->hidden_size, 0);
  EXPECT_GT(facts->parameters, 0);
  EXPECT_GT(facts->weight_bytes, facts->parameters);
}

TEST(FileFacts, WhatIsNoModelHasNone) {
  EXPECT_FALSE(ReadFileFacts("/nowhere", "").ok());
  EXPECT_FALSE(ReadFileFacts(PENSTOCK_GOLDEN_DIR, "").ok());
  // A template that cannot be had is the load's error.
  EXPECT_TRUE(ReadFileFacts(kGguf, "no such template").ok());
}

}  // namespace
}  // namespace penstock::engine
