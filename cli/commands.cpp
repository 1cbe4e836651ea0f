#include "cli/commands.h"

namespace sluice::cli {

namespace {

const Flag kSet = {"--set", "KEY=VALUE", "set a config key, such as train.steps=100; may be repeated", true};
const Flag kJson = {"--json", "FILE", "write the result as JSON; - is standard output"};
const Flag kPrintConfig = {"--print-config", "", "print every key with its value as a config file, and stop"};
const Flag kSeed = {"--seed", "N", "of the random choices (default 1)"};

}  // namespace

const std::vector<Command>& commands() {
  static const std::vector<Command> table = {
      {"train",
       "CONFIG",
       "train a model; CONFIG is a file or a name from models/configs",
       {kSet,
        {"--resume", "auto|DIR", "continue from the newest whole checkpoint of output.dir, or from DIR"},
        {"--init", "CHECKPOINT", "begin with the weights of a checkpoint, as far as names and shapes fit"},
        kJson,
        {"--report", "FILE", "write an HTML report (output.report)"},
        {"--trace", "FILE", "write a Chrome trace of the last step (output.trace); opens in Perfetto"},
        kPrintConfig},
       run_train,
       false,
       true},
      {"eval",
       "CHECKPOINT",
       "validation loss, perplexity and bits per byte of a checkpoint; BLEU and chrF of translations",
       {kSet, kJson},
       run_eval},
      {"generate",
       "CHECKPOINT",
       "continue a text with a trained language model",
       {{"--prompt", "TEXT", "the text to continue"},
        {"--tokens", "N", "tokens to generate (default 200, or as many as fit the context)"},
        {"--temperature", "X", "0 = always the most likely token (default 0.8)"},
        {"--top-k", "K", "choose among the K most likely tokens; 0 = all (default 0)"},
        {"--top-p", "P", "choose among the most likely tokens whose probability reaches P (default 1)"},
        kSeed,
        kSet},
       run_generate},
      {"translate",
       "CHECKPOINT",
       "translate standard input, a line at a time, with a trained translation model",
       {{"--to", "LANG", "the language to translate into, such as de"},
        {"--from", "LANG", "the language to translate from (default data.source_language)"},
        {"--beams", "N", "of the search; 1 = greedy (default 4)"},
        {"--length-penalty", "X", "exponent of the score's length; 0 = none (default 0.6)"},
        {"--sentences", "N", "that are searched together (default 8)"},
        kSet},
       run_translate},
      {"plan",
       "CONFIG",
       "memory, time and bubble of a training, without training",
       {kSet,
        kJson,
        {"--svg", "FILE", "draw a step: timeline, memory over time and partition"},
        {"--html", "FILE", "write the plan and its plots as a page"},
        {"--profile", "", "measure the nodes on the devices of the plan (pipeline.costs=measured)"},
        {"--csv", "FILE", "write the order of work, which pipeline.schedule takes back"},
        {"--compare", "", "bytes, time and memory of pipeline, data, sharded and mixed layouts of the devices, over several links"},
        {"--kernels", "DEVICE",
         "where a step on one device goes, by kind of kernel: measured on cpu:0 or cuda:0, counted for one such as h200"},
        kPrintConfig},
       run_plan},
      {"inspect",
       "CHECKPOINT|CONFIG",
       "nodes and parameters of a model",
       {kSet, kJson, {"--verify", "", "read every file of a checkpoint, or of all in a folder, and prove it whole"}},
       run_inspect},
      {"devices",
       "",
       "devices of this machine with their measured limits, and those that plans can be made for",
       {kJson, {"--describe", "FILE", "write one core of this machine as the description of a device, for plans"}},
       run_devices},
  };
  return table;
}

}  // namespace sluice::cli
