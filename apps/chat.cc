// penstock chat: a conversation with a model, in the terminal or through a pipe.
#include <unistd.h>

#include <cstdlib>

#include "chat_loop.h"
#include "commands.h"
#include "decoder_flags.h"
#include "engine/model_templates.h"
#include "generate/text_stream.h"
#include "interruption.h"

namespace penstock {
namespace {

struct ChatFlags {
  DecoderFlags decoder;
  SamplingFlags sampling;
  std::optional<std::string> prompt;
  std::string system;
  std::string chat_template;
  std::string variables;
  bool thinking = true;
  bool verbose = false;
};

Expected<JsonValue> ReadVariables(const std::string& text) {
  if (text.empty()) return JsonValue(JsonValue::Object());
  auto variables = JsonValue::Parse(text);
  if (!variables.ok()) return variables.status().Annotate("--chat-template-kwargs");
  if (variables->object() == nullptr) {
    return Status::InvalidArgument("--chat-template-kwargs is to be a JSON object");
  }
  return variables;
}

std::string NameOfModel(const ChatFlags& flags) {
  return flags.decoder.model.empty() ? "the demonstration model" : flags.decoder.model;
}

ChatLoopOptions LoopOptions(const ChatFlags& flags, const TextModel& model) {
  ChatLoopOptions options;
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  const char* const no_colour = std::getenv("NO_COLOR");
  const char* const kind = std::getenv("TERM");
  options.name = NameOfModel(flags);
  options.printer.terminal = terminal;
  options.printer.colour = terminal && (no_colour == nullptr || *no_colour == '\0') &&
                           kind != nullptr && std::string_view(kind) != "dumb";
  options.printer.thinking = terminal && flags.thinking;
  options.interactive = terminal && isatty(STDIN_FILENO) == 1 && !flags.prompt;
  options.verbose = flags.verbose;
  options.context = model.context();
  options.vocabulary = static_cast<int32_t>(VocabularyOf(model));
  return options;
}

// Gives the exit code.
Expected<int> RunChatWith(const ChatFlags& flags) {
  PENSTOCK_ASSIGN_OR_RETURN(JsonValue variables, ReadVariables(flags.variables));
  ChatSignals signals;
  LoadedDecoder loaded;
  {
    const Interruption ends_loading;  // a signal ends the program until there is a conversation
    PENSTOCK_ASSIGN_OR_RETURN(loaded, LoadedDecoder::Load(flags.decoder));
  }
  const TextModel& model = *loaded.model;
  PENSTOCK_ASSIGN_OR_RETURN(
      const ModelTemplates templates,
      ModelTemplates::Make(model.chat_templates, flags.chat_template, NameOfModel(flags)));
  PENSTOCK_ASSIGN_OR_RETURN(ChatTemplate made, templates.For(/*has_tools=*/false));
  Metrics metrics;
  PENSTOCK_ASSIGN_OR_RETURN(
      const auto session,
      ChatSession::Make(&model, std::move(made), std::move(variables), &metrics, &signals));
  session->SetSystem(flags.system);
  session->sampling() = flags.sampling.For(model.defaults);
  PENSTOCK_RETURN_IF_ERROR(session->sampling().Check(static_cast<int32_t>(VocabularyOf(model))));
  ChatLoop loop(LoopOptions(flags, model), session.get(), &signals);
  if (!flags.prompt) return loop.Run();
  std::string message = *flags.prompt;
  if (message == "-") {
    message.clear();
    if (!loop.ReadAll(&message)) return kExitSignal + loop.signal();
  }
  return loop.Once(message);
}

void AddChatFlags(CommandLine* line, ChatFlags* flags) {
  const std::string group = "Conversation";
  FlagSet& app = line->flags();
  app.AddOption("-p,--prompt", flags->prompt,
                "Say this, print the reply and leave; - reads it from standard input.")
      ->TypeName("TEXT")
      ->Group(group);
  app.AddOption("-s,--system", flags->system, "Instructions for the model.")
      ->TypeName("TEXT")
      ->Group(group);
  app.AddOption("--chat-template", flags->chat_template,
                "One of the model's chat templates by its name, or a file with a Jinja template.")
      ->TypeName("FILE|NAME")
      ->Group(group);
  app.AddOption("--chat-template-kwargs", flags->variables,
                "Variables for the template, such as '{\"enable_thinking\": false}'.")
      ->TypeName("JSON")
      ->Group(group);
  app.AddSwitch("--thinking,!--no-thinking", flags->thinking,
                "Show the model's thinking, or not; never without a terminal. [on]")
      ->Group(group);
  app.AddSwitch("-v,--verbose", flags->verbose,
                "After each reply a line with its tokens, their rate, the time to the first, and "
                "how many tokens of the conversation were cached.")
      ->Group(group);
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
                   "  git diff | penstock chat -m model.gguf --system 'Review this.' -p -\n");
  ChatFlags flags;
  AddDecoderFlags(&line, &flags.decoder);
  AddChatFlags(&line, &flags);
  AddSamplingFlags(&line, &flags.sampling);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  const Expected<int> exit_code = RunChatWith(flags);
  return exit_code.ok() ? *exit_code : line.Fail(exit_code.status());
}

}  // namespace penstock
