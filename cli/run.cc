// seqto run: raw outputs over the data.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "seqto/error.h"
#include "word_flags.h"

namespace seqto::cli {
namespace {

void run_command(const WordFlags& f, const Context& context) {
  Model model = load_model(f.model);
  auto data = open_dataset(f.data.path, model.graph.free_inputs(), f.data.options);
  auto runner = runner_for(model, f.data, f.device.device, f.device.options, context);
  auto session = runner->load_file(f.model);
  std::vector<std::vector<float>> values(session->output_names().size());
  std::vector<std::vector<int64_t>> dims(values.size());
  for (int64_t i : all_samples(*data)) {
    context.env.stop_if_cancelled("run");
    auto outputs = session->run(data->read(i).inputs);
    for (size_t o = 0; o < outputs.size(); ++o) {
      if (i == 0) dims[o] = outputs[o].dims();
      if (outputs[o].dims() != dims[o])
        throw Error(Code::kInvalidInput,
                    fmt::format("[run] output '{}' changes its shape from sample to sample; one shape was "
                                "expected; run fewer samples",
                                session->output_names()[o]));
      for (int64_t k = 0; k < outputs[o].element_count(); ++k)
        values[o].push_back(static_cast<float>(element(outputs[o], k)));
    }
    context.env.progress({"run", i + 1, data->size(), ""});
  }
  std::vector<Initializer> arrays;
  for (size_t o = 0; o < values.size(); ++o) {
    // The batch axis of 1 becomes the axis of samples.
    std::vector<int64_t> shape = dims[o];
    if (!shape.empty() && shape[0] == 1) shape[0] = data->size();
    else shape.insert(shape.begin(), data->size());
    arrays.push_back({session->output_names()[o], float_tensor(shape, std::move(values[o]))});
  }
  save_npz(f.output, arrays);
  if (context.json)
    fmt::print(
        "{}\n",
        nlohmann::ordered_json{{"output", f.output}, {"outputs", session->output_names()}, {"samples", data->size()}}
            .dump(1));
  else fmt::print("wrote {} outputs of {} samples to {}\n", arrays.size(), data->size(), f.output);
}

}  // namespace

void add_run(CLI::App& app, Context& context) {
  auto f = std::make_shared<WordFlags>();
  auto* word = add_word(app, "run", "A model's raw outputs over the data", *f, true);
  word->add_option("-o,--output", f->output, ".npz to write, one array per output")->required();
  add_print_config_flag(word);
  word->callback([=, &context] { run_command(*f, context); });
}

}  // namespace seqto::cli
