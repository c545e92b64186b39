// A service with one embedding model that computes nothing.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "api/service.h"
#include "engine/fake_engine.h"
#include "registry/registry.h"

namespace penstock {

struct FakeService {
  FakeService() {
    EncoderParts parts = FakeParts(ModelTask::kEmbedding);
    EncoderEngineOptions options;
    options.name = "fake";
    EXPECT_TRUE(
        registry.AddLoaded(std::make_unique<EncoderEngine>(std::move(parts), options, &metrics))
            .ok());
  }

  Metrics metrics;
  Registry registry{nullptr, &metrics};
  Service service{&registry, {}, &metrics};
};

}  // namespace penstock
