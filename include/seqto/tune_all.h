// Room: orchestrator. Many models in one run: a study each, one table and one page of all.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "seqto/hub.h"
#include "seqto/overview.h"
#include "seqto/tune.h"

namespace seqto {

struct TuneAllOptions {
  TuneOptions tune;  // the same for all; `model` and `output` are set for each
  HubOptions hub;
  int64_t hub_first = 0, hub_last = -1;  // positions in the hub's list that a glob may find; last -1: the end
  // Each model goes through preprocess() first; what comes of it is the float model of the study, prepared.onnx.
  bool prepare_models = false;
  // Names of nodes that stay in float in the models that have them.
  std::vector<std::string> exclude_if_present;
};

// A path, "hub:NAME", "hub:NAME@OPSET", a glob "hub:*net*@12", or a folder: its .onnx files by name, less those with
// "_quant" in it. `name` is the folder of its results.
struct ModelSource {
  std::string name;
  std::string location;  // a path, or hub:NAME@OPSET
};
// One for a path or name, any number for folders and globs. Throws Error{kInvalidInput} where there is none, and as
// list_hub().
std::vector<ModelSource> find_models(const std::string& asked, const TuneAllOptions& options, const Env& = {});

// True where `asked` may stand for several models: their studies then lie in folders of their own.
bool names_several(const std::string& asked);

// tune() for each below options.tune.output/<name>. A model that fails ends only its own study; its entry has the
// reason. After each, index.html and overview.json of those so far are written. Throws Error{kInterrupted} on cancel,
// and the error of the first when all have failed.
std::vector<OverviewEntry> tune_all(const std::vector<ModelSource>& models, const TuneAllOptions& options,
                                    const Env& = {});

// The same for the one model of a study.
Summary tune_one(const ModelSource& model, const TuneAllOptions& options, const Env& = {});

}  // namespace seqto
