// penstock chat: a conversation with a model, in the terminal or through a pipe.
#include <unistd.h>

#include <cstdlib>

#include "chat_loop.h"
#include "chat_session.h"
#include "commands.h"
#include "decoder_flags.h"
#include "engine/model_templates.h"
#include "generate/text_stream.h"
#include "os/interruption.h"
#include "remote_chat.h"
#include "server_commands.h"
#include "server_flags.h"

namespace penstock::cli {
namespace {

struct ChatFlags {
  DecoderFlags decoder;
  ServerFlags server;
  SamplingFlags sampling;
  std::optional<std::string> prompt;
  std::string system;
  std::string chat_template;
  std::string variables;
  bool thinking = true;
  bool verbose = false;
};

Expected<chat::JsonValue> ReadVariables(const std::string& text) {
  if (text.empty()) return chat::JsonValue(chat::JsonValue::Object());
  auto variables = chat::JsonValue::Parse(text);
  if (!variables.ok()) return variables.status().Annotate("--chat-template-kwargs");
  if (variables->object() == nullptr) {
    return Status::InvalidArgument("--chat-template-kwargs is to be a JSON object");
  }
  return variables;
}

std::string NameOfModel(const ChatFlags& flags) {
  return flags.decoder.model.empty() ? "the demonstration model" : flags.decoder.model;
}

ChatLoopOptions LoopOptions(const ChatFlags& flags, int32_t context) {
  ChatLoopOptions options;
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  const char* const no_colour = std::getenv("NO_COLOR");
  const char* const kind = std::getenv("TERM");
  options.name = NameOfModel(flags);
  if (!flags.server.url.empty()) {
    options.name =
        (flags.decoder.model.empty() ? "a model" : flags.decoder.model) + " at " + flags.server.url;
  }
  options.printer.terminal = terminal;
  options.printer.colour = terminal && (no_colour == nullptr || *no_colour == '\0') &&
                           kind != nullptr && std::string_view(kind) != "dumb";
  options.printer.thinking = terminal && flags.thinking;
  options.interactive = terminal && isatty(STDIN_FILENO) == 1 && !flags.prompt;
  options.verbose = flags.verbose;
  options.context = context;
  return options;
}

// Until the conversation ends; gives the exit code.
Expected<int> Converse(const ChatFlags& flags, int32_t context, Conversation* conversation,
                       ChatSignals* signals) {
  conversation->SetSystem(flags.system);
  ChatLoop loop(LoopOptions(flags, context), conversation, signals);
  if (!flags.prompt) return loop.Run();
  std::string message = *flags.prompt;
  if (message == "-") {
    message.clear();
    if (!loop.ReadAll(&message)) return kExitSignal + loop.signal();
  }
  return loop.Once(message);
}

// Gives the exit code.
Expected<int> RunChatWith(const ChatFlags& flags) {
  PENSTOCK_ASSIGN_OR_RETURN(chat::JsonValue variables, ReadVariables(flags.variables));
  ChatSignals signals;
  LoadedDecoder loaded;
  {
    const Interruption ends_loading;  // a signal ends the program until there is a conversation
    PENSTOCK_ASSIGN_OR_RETURN(loaded, LoadedDecoder::Load(flags.decoder));
  }
  const generate::TextModel& model = *loaded.model;
  PENSTOCK_ASSIGN_OR_RETURN(
      const engine::ModelTemplates templates,
      engine::ModelTemplates::Make(model.chat_templates, flags.chat_template, NameOfModel(flags)));
  PENSTOCK_ASSIGN_OR_RETURN(chat::ChatTemplate made, templates.For(/*has_tools=*/false));
  metrics::Metrics metrics;
  PENSTOCK_ASSIGN_OR_RETURN(
      const auto session,
      ChatSession::Make(&model, std::move(made), std::move(variables), &metrics, &signals));
  session->sampling() = flags.sampling.For(model.defaults);
  PENSTOCK_RETURN_IF_ERROR(
      session->sampling().Check(static_cast<int32_t>(generate::VocabularyOf(model))));
  return Converse(flags, model.context(), session.get(), &signals);
}

// The same by a server.
Expected<int> ChatAtServer(const ChatFlags& flags, const std::string& model) {
  PENSTOCK_ASSIGN_OR_RETURN(chat::JsonValue variables, ReadVariables(flags.variables));
  PENSTOCK_ASSIGN_OR_RETURN(client::ServerClientOptions server, ClientOptions(flags.server));
  ChatSignals signals;
  RemoteChat chat(std::move(server), model, flags.sampling, std::move(variables), &signals);
  return Converse(flags, 0, &chat, &signals);
}

void AddChatFlags(CommandLine* line, ChatFlags* flags) {
  const FlagGroup group(&line->flags(), "Conversation");
  group.Add("-p,--prompt", flags->prompt, "TEXT",
            "Say this, print the reply and leave; - reads it from standard input.");
  group.Add("-s,--system", flags->system, "TEXT", "Instructions for the model.");
  group.Add("--chat-template", flags->chat_template, "FILE|NAME",
            "One of the model's chat templates by its name, or a file with a Jinja template.");
  group.Add("--chat-template-kwargs", flags->variables, "JSON",
            "Variables for the template, such as '{\"enable_thinking\": false}'.");
  group.Switch("--thinking,!--no-thinking", flags->thinking,
               "Show the model's thinking, or not; never without a terminal. [on]");
  group.Switch("-v,--verbose", flags->verbose,
               "After each reply a line with its tokens, their rate, the time to the first, and "
               "how many tokens of the conversation were cached.");
}

void AddAllFlags(CommandLine* line, ChatFlags* flags) {
  AddDecoderFlags(line, &flags->decoder);
  AddChatFlags(line, flags);
  AddSamplingFlags(line, &flags->sampling);
  AddServerFlags(line, &flags->server);
  line->flags().Get("--url")->Description(
      "Server that makes the replies, such as http://127.0.0.1:8080, instead of a model loaded "
      "here. --model is its name there; sampling that is not given is the server's.");
}

int Run(const CommandLine& line, const ChatFlags& flags) {
  if (!flags.server.url.empty()) {
    if (const Status fits = CheckForServer(line); !fits.ok()) return line.FailUsage(fits.message());
    std::vector<std::string> models;
    if (!flags.decoder.model.empty()) models.push_back(flags.decoder.model);
    const std::string name =
        line.name() == "run" ? flags.decoder.model : NameAtServer(line, models);
    const Expected<int> exit_code = ChatAtServer(flags, name);
    return exit_code.ok() ? *exit_code : line.Fail(exit_code.status());
  }
  const Expected<int> exit_code = RunChatWith(flags);
  return exit_code.ok() ? *exit_code : line.Fail(exit_code.status());
}

}  // namespace

int RunChat(const std::vector<std::string>& args) {
  CommandLine line("chat",
                   "Talk with a model in the terminal. Without a terminal each line of standard "
                   "input is a message, and the replies alone are printed. /help lists what can be "
                   "typed; Ctrl-C stops a reply.",
                   "  penstock chat\n"
                   "  penstock chat -m Qwen/Qwen3-0.6B --system 'Answer in one sentence.'\n"
                   "  penstock chat -m model.gguf --temperature 0 --verbose\n"
                   "  penstock chat --url http://127.0.0.1:8080 -m SmolLM2-135M-Instruct\n"
                   "  git diff | penstock chat -m model.gguf --system 'Review this.' -p -\n");
  ChatFlags flags;
  AddAllFlags(&line, &flags);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  return Run(line, flags);
}

int RunRun(const std::vector<std::string>& args) {
  CommandLine line("run",
                   "Talk with a model by its name, which is downloaded if it is not here: "
                   "penstock chat -m MODEL. With a prompt after it, the reply is printed and the "
                   "command ends.",
                   "  penstock run Qwen/Qwen3-0.6B-GGUF:Q8_0\n"
                   "  penstock run Qwen/Qwen3-0.6B-GGUF:Q8_0 'Why is the sky blue?'\n"
                   "  penstock run SmolLM2-135M-Instruct --url http://127.0.0.1:8080\n");
  ChatFlags flags;
  AddAllFlags(&line, &flags);
  std::string model, prompt;
  line.flags()
      .AddOption("MODEL", model, "As --model of penstock chat. Default: the demonstration model.")
      ->TypeName("REF");
  line.flags().AddOption("PROMPT", prompt, "As --prompt.")->TypeName("TEXT");
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  if (!model.empty()) {
    if (line.on_line().contains("model")) {
      return line.FailUsage("the model is named twice: as an argument and by --model");
    }
    flags.decoder.model = model;
  }
  if (!prompt.empty()) flags.prompt = prompt;
  return Run(line, flags);
}

}  // namespace penstock::cli
