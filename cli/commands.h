// The command line's words, one function each; all of them use the public headers alone.
#pragma once

#include <string>

#include "parser.h"
#include "seqto/env.h"

namespace seqto::cli {

// The whole command: parses the words, runs one, ends the process with its exit code.
[[noreturn]] void run_program(int argc, char** argv);

// What the flags before and after the word set; filled by the parser before run() is called.
struct Context {
  Env env;
  bool json = false;
  int verbosity = 1;  // 0 quiet, 1 plain, 2 verbose
};

// Adds the word to the parser; returns nothing, its callback does the work.
void add_inspect(Command app, Context& context);
void add_prepare(Command app, Context& context);
void add_calibrate(Command app, Context& context);
void add_quantize(Command app, Context& context);
void add_analyze(Command app, Context& context);
void add_tune(Command app, Context& context);
void add_ask(Command app, Context& context);
void add_eval(Command app, Context& context);
void add_tell(Command app, Context& context);
void add_run(Command app, Context& context);
void add_validate(Command app, Context& context);
void add_plan(Command app, Context& context);
void add_bench(Command app, Context& context);
void add_check(Command app, Context& context);
void add_audit(Command app, Context& context);
void add_lint(Command app, Context& context);
void add_report(Command app, Context& context);
void add_device(Command app, Context& context);
void add_hub(Command app, Context& context);
void add_worker(Command app, Context& context);
// To be called after all others: they tell of every word.
void add_completion(Command app);
void add_man(Command app);
void add_help(Command app);
void add_version(Command app, Context& context);

}  // namespace seqto::cli
