// The command line's words, one function each; all of them use the public headers alone.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "seqto/env.h"

namespace seqto::cli {

// What the flags before and after the word set; filled by the parser before run() is called.
struct Context {
  Env env;
  bool json = false;
  int verbosity = 1;  // 0 quiet, 1 plain, 2 verbose
};

// Adds the word to the parser; returns nothing, its callback does the work.
void add_inspect(CLI::App& app, Context& context);
void add_prepare(CLI::App& app, Context& context);
void add_calibrate(CLI::App& app, Context& context);
void add_quantize(CLI::App& app, Context& context);
void add_analyze(CLI::App& app, Context& context);
void add_tune(CLI::App& app, Context& context);
void add_run(CLI::App& app, Context& context);
void add_validate(CLI::App& app, Context& context);
void add_plan(CLI::App& app, Context& context);
void add_bench(CLI::App& app, Context& context);
void add_check(CLI::App& app, Context& context);
void add_audit(CLI::App& app, Context& context);
void add_report(CLI::App& app, Context& context);
void add_device(CLI::App& app, Context& context);
void add_hub(CLI::App& app, Context& context);
void add_worker(CLI::App& app, Context& context);
// To be called after all others: they tell of every word.
void add_completion(CLI::App& app);
void add_man(CLI::App& app);

}  // namespace seqto::cli
