// A conversation whose replies a server makes.
#pragma once

#include <string>

#include "chat_signals.h"
#include "client/server_client.h"
#include "conversation.h"
#include "decoder_flags.h"

namespace penstock::cli {

class RemoteChat final : public Conversation {
 public:
  // `model`: its name at the server; "": the server's choice. `variables`: an object for the
  // template. `signals` must outlive it.
  RemoteChat(client::ServerClientOptions server, std::string model, SamplingFlags sampling,
             chat::JsonValue variables, ChatSignals* signals);

  Status Set(const std::string& given) override;
  std::string Settings() const override;

 protected:
  Expected<ChatReply> MakeReply(const OnDelta& on_delta) override;

 private:
  std::string Body() const;

  client::ServerClient client_;
  const std::string model_;
  SamplingFlags sampling_;
  const chat::JsonValue variables_;
  ChatSignals* const signals_;
};

}  // namespace penstock::cli
