#include "commands.h"

#include "server_commands.h"

namespace penstock::cli {
namespace {

const std::vector<Command>& Commands() {
  static const std::vector<Command> kCommands = {
      {"serve", "Answer HTTP and gRPC requests: APIs of OpenAI, Ollama, TEI, Triton", RunServe},
      {"embed", "Turn texts into vectors (JSONL or .npy)", RunEmbed},
      {"merge", "Put the parts of shards together", RunMerge},
      {"rerank", "Sort documents by how well they answer a query", RunRerank},
      {"classify", "Label texts or pairs of texts", RunClassify},
      {"generate", "Generate text after a prompt", RunGenerate},
      {"batch", "Generate text for each row of files, many at once", RunBatch},
      {"chat", "Talk with a model in the terminal", RunChat},
      {"run", "Talk with a model by its name: penstock chat -m NAME", RunRun},
      {"tokenize", "Show the tokens of texts", RunTokenize},
      {"inspect", "Describe a model", RunInspect},
      {"pull", "Download models into the cache", RunPull},
      {"list", "List the models in the cache (also: ls)", RunList},
      {"show", "Show what a model reference stands for", RunShow},
      {"rm", "Remove models from the cache", RunRemove},
      {"ps", "List the models that a server has loaded", RunPs},
      {"stop", "Unload a model of a server", RunStop},
      {"health", "Whether a server is ready, for health checks", RunHealth},
      {"doctor", "Check that a model computes what it should here", RunDoctor},
      {"plan", "How many replicas a load needs, and what breaks first", RunPlan},
      {"bench", "Measure models on this machine, or a server under load", RunBench, BenchGroup},
      {"completion", "Print a script that completes commands and flags in a shell", RunCompletion},
      {"man", "Print a manual page", RunMan},
  };
  return kCommands;
}

}  // namespace

const CommandGroup& ProgramGroup() {
  static const CommandGroup kGroup = {
      "penstock",
      "inference server: embeds, reranks, classifies and generates text",
      "penstock " PENSTOCK_VERSION
      " - inference server: embeds, reranks, classifies and generates text",
      "command",
      "  penstock COMMAND --help   flags, defaults and examples of a command\n"
      "  penstock --version        the version; penstock version --json: of its libraries, too\n",
      "  penstock serve --model sentence-transformers/all-MiniLM-L6-v2\n",
      Commands,
      {{"ls", "list", true},
       {"download", "pull", false},
       {"get", "pull", false},
       {"remove", "rm", false},
       {"delete", "rm", false},
       {"info", "show", false},
       {"models", "list", false},
       {"status", "ps", false},
       {"unload", "stop", false},
       {"server", "serve", false},
       {"start", "serve", false},
       {"up", "serve", false},
       {"complete", "generate", false},
       {"encode", "embed", false},
       {"embeddings", "embed", false},
       {"create", "serve", false},
       {"benchmark", "bench", false},
       {"check", "doctor", false}}};
  return kGroup;
}

}  // namespace penstock::cli
