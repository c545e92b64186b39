// A service with one embedding model that computes nothing.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "api/service.h"
#include "engine/fake_engine.h"
#include "registry/registry.h"

namespace penstock::lab {

struct FakeService {
  FakeService() {
    engine::EncoderParts parts = engine::FakeParts(families::ModelTask::kEmbedding);
    engine::EncoderEngineOptions options;
    options.name = "fake";
    EXPECT_TRUE(
        registry
            .AddLoaded(std::make_unique<engine::EncoderEngine>(std::move(parts), options, &metrics))
            .ok());
  }

  metrics::Metrics metrics;
  registry::Registry registry{nullptr, &metrics};
  api::Service service{&registry, {}, &metrics};
};

}  // namespace penstock::lab
