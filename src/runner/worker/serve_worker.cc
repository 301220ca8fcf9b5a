#include <fmt/format.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <new>
#include <thread>

#include "base/hash.h"
#include "base/json.h"
#include "base/machine.h"
#include "runner/worker/kept_blobs.h"
#include "runner/worker/worker_protocol.h"
#include "runner/worker/worker_stream.h"
#include "seqto/confine.h"
#include "seqto/runner.h"

namespace seqto {
namespace {

using namespace internal;
using nlohmann::json;

class Server {
 public:
  Server(Runner& runner, int in, int out, const ServeOptions& options)
      : runner_(runner), options_(options), reader_(in), writer_(out) {
    if (options.stream) kept_.emplace(options.blobs.at(0), options.kept_bytes);
  }

  void serve() {
    std::thread executor([this] { execute(); });
    std::string line;
    while (!shut_down_ && reader_.next(line))
      if (line.find_first_not_of(" \t\r") != std::string::npos && !receive(line)) break;
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
    wait_for_executor();
    executor.join();
  }

 private:
  struct Request {
    json id;
    std::string verb;
    json message;
    std::map<std::string, Blob> blobs;  // over a link: those that it names
  };

  // --- the thread that reads
  // False at the end of input.
  bool receive(const std::string& line) {
    Request request;
    try {
      request.message = internal::parse_json(line);
      if (kept_)
        if (auto header = blob_header(request.message)) return keep(*header);
      if (request.message.is_object() && request.message.contains("id")) request.id = request.message["id"];
      if (!request.id.is_number_integer())
        throw Error(Code::kInvalidInput, "[worker] a request is an object with an integer 'id' and a 'verb'");
      request.verb = field<std::string>(request.message, "verb");
      if (request.verb == "hello") reply(request.id, hello(request.message));
      else if (request.verb == "cancel") reply(request.id, cancel(field<json>(request.message, "request")));
      else if (json lacking = find_blobs(request); !lacking.empty())
        writer_.write({{"id", request.id}, {"lacks", std::move(lacking)}});
      else enqueue(std::move(request));
    } catch (const Error& error) {
      reply_error(request.id, error.code(), error.what());
    } catch (const json::exception& error) {
      reply_error(request.id, Code::kInvalidInput, fmt::format("[worker] a line that is no JSON: {}", error.what()));
    }
    return true;
  }

  bool keep(const BlobHeader& header) {
    std::string bytes;
    if (!reader_.take(header.bytes, bytes)) return false;
    std::lock_guard lock(kept_mutex_);
    try {
      kept_->add(header.name, std::as_bytes(std::span(bytes)));
    } catch (const Error& error) {  // of the request that will lack it
      no_room_ = error.what();
    }
    return true;
  }

  // Holds those that are there; the names of the others.
  json find_blobs(Request& request) {
    json lacking = json::array();
    if (!kept_) return lacking;
    std::lock_guard lock(kept_mutex_);
    for (const std::string& name : blob_names(request.message))
      if (auto blob = kept_->find(name)) request.blobs[name] = std::move(*blob);
      else lacking.push_back(name);
    const std::string why = std::exchange(no_room_, "");
    if (!lacking.empty() && !why.empty()) throw Error(Code::kUnavailable, why);
    return lacking;
  }

  json hello(const json& message) {
    if (auto version = field<int>(message, "protocol"); version != kWorkerProtocol)
      throw Error(
          Code::kInvalidInput,
          fmt::format("[worker] protocol {} found; this worker speaks {}; use seqto of one version on both sides",
                      version, kWorkerProtocol));
    json confined = json::array();
    if (confinement().writing) confined.push_back("writing");
    if (confinement().network) confined.push_back("network");
    return {{"protocol", kWorkerProtocol},    {"seqto", SEQTO_VERSION},          {"device", options_.device},
            {"processor", processor_name()},  {"runner", runner_.description()}, {"threads", runner_.threads()},
            {"confined", std::move(confined)}};
  }

  json cancel(const json& id) {
    std::lock_guard lock(mutex_);
    bool found = !id.is_null() && current_ == id;
    if (found) {
      cancelled_ = true;
      if (running_) running_->cancel();
    }
    for (auto it = queue_.begin(); it != queue_.end(); ++it)
      if (it->id == id) {
        reply_error(id, Code::kInterrupted, "[worker] cancelled before it began");
        queue_.erase(it);
        found = true;
        break;
      }
    return {{"found", found}};
  }

  void enqueue(Request request) {
    if (request.verb == "shutdown") shut_down_ = true;
    {
      std::lock_guard lock(mutex_);
      queue_.push_back(std::move(request));
    }
    changed_.notify_all();
  }

  // Finishes what was asked for; where the one who asked is gone, it ends the process.
  void wait_for_executor() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, std::chrono::milliseconds(50), [this] { return finished_; }))
      if (!writer_.has_reader()) std::_Exit(0);
  }

  // --- the thread that computes
  void execute() {
    for (;;) {
      Request request;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return closed_ || !queue_.empty(); });
        if (queue_.empty()) break;
        request = std::move(queue_.front());
        queue_.pop_front();
        current_ = request.id;
        cancelled_ = false;
      }
      at_hand_ = std::move(request.blobs);
      outputs_.clear();
      try {
        json result = answer(request);
        writer_.write({{"id", request.id}, {"ok", std::move(result)}}, outputs_);
      } catch (const DeviceGone& gone) {
        writer_.write({{"id", request.id}, {"error", {{"code", kDeviceGone}, {"message", gone.what()}}}});
      } catch (const Error& error) {
        reply_error(request.id, error.code(), error.what());
      } catch (const std::bad_alloc&) {
        const std::string gone = fmt::format(
            "[worker] no memory for '{}' found; end other programs, or take fewer "
            "--jobs, a smaller batch or a smaller model",
            request.verb);
        writer_.write({{"id", request.id}, {"error", {{"code", kDeviceGone}, {"message", gone}}}});
      } catch (const std::exception& error) {
        reply_error(request.id, Code::kInternal, fmt::format("[{}] {}", request.verb, error.what()));
      }
      if (kept_) {
        std::lock_guard lock(kept_mutex_);
        kept_->trim();
      }
      std::lock_guard lock(mutex_);
      current_ = nullptr;
    }
    std::lock_guard lock(mutex_);
    sessions_.clear();
    finished_ = true;
    changed_.notify_all();
  }

  json answer(const Request& request) {
    if (request.verb == "load") return load(request.message);
    if (request.verb == "run") return run(request.message);
    if (request.verb == "run_many") return run_many(request.message);
    if (request.verb == "time") return time(request.message);
    if (request.verb == "optimize") return optimize(request.message);
    if (request.verb == "place") return place(request.message);
    if (request.verb == "memory") return memory();
    if (request.verb == "unload") return unload(request.message);
    if (request.verb == "shutdown") return json::object();
    throw Error(Code::kInvalidInput, fmt::format("[worker] verb '{}' found; hello, load, run, run_many, time, "
                                                 "optimize, place, memory, unload, cancel, shutdown "
                                                 "expected",
                                                 request.verb));
  }

  json load(const json& message) {
    SessionOptions options{parse_optimization(field_or<std::string>(message, "optimization", "all"))};
    auto session = message.contains("file")
                       ? runner_.load_file(field<std::string>(message, "file"), options)
                       : runner_.load(model_from_json(field<json>(message, "model"), get_), options);
    int64_t number = ++last_session_;
    json reply{{"session", number}, {"inputs", session->input_names()}, {"outputs", session->output_names()}};
    sessions_[number] = std::move(session);
    return reply;
  }

  json run(const json& message) {
    Session& session = session_of(message);
    auto inputs = inputs_of(message);
    return timed_outputs(cancellable(session, [&] { return session.run_timed(inputs); }));
  }

  json run_many(const json& message) {
    Session& session = session_of(message);
    std::vector<std::vector<Tensor>> samples;
    for (const json& inputs : field<json>(message, "samples")) samples.push_back(inputs_of({{"inputs", inputs}}));
    json results = json::array();
    for (const auto& result : cancellable(session, [&] { return session.run_many(samples); }))
      results.push_back(timed_outputs(result));
    return {{"results", std::move(results)}};
  }

  json timed_outputs(const TimedOutputs& result) {
    json outputs = tensors_to_json(result.outputs, [this](const Tensor& t) { return put(t); });
    return {{"outputs", std::move(outputs)}, {"ns", result.ns}};
  }

  json time(const json& message) {
    Session& session = session_of(message);
    auto inputs = inputs_of(message);
    int repeats = field<int>(message, "repeats");
    return {{"ns", cancellable(session, [&] { return session.time(inputs, repeats); })}};
  }

  json optimize(const json& message) {
    Model model = runner_.optimized(model_from_json(field<json>(message, "model"), get_));
    return {{"model", model_to_json(model, [this](const Tensor& t) { return put(t); })}};
  }

  json place(const json& message) {
    Model model = model_from_json(field<json>(message, "model"), get_);
    return {{"nodes", placements_to_json(runner_.placement(model, inputs_of(message), field_or(message, "runs", 1)))}};
  }

  json memory() {
    ProcessMemory memory = runner_.memory();
    return {{"resident_bytes", memory.resident_bytes}, {"peak_bytes", memory.peak_bytes}};
  }

  json unload(const json& message) {
    session_of(message);
    sessions_.erase(field<int64_t>(message, "session"));
    return json::object();
  }

  Session& session_of(const json& message) {
    auto it = sessions_.find(field<int64_t>(message, "session"));
    if (it == sessions_.end())
      throw Error(Code::kInvalidInput,
                  fmt::format("[worker] no session {} found; load a model first", field<int64_t>(message, "session")));
    return *it->second;
  }

  // A mapped blob comes into memory when it is touched: here, so that no run is charged for it.
  std::vector<Tensor> inputs_of(const json& message) {
    constexpr size_t kPage = 4096;
    auto inputs = tensors_from_json(field<json>(message, "inputs"), get_);
    for (const Tensor& t : inputs)
      for (size_t i = 0; i < t.bytes().size(); i += kPage) (void)*(const volatile std::byte*)(&t.bytes()[i]);
    return inputs;
  }

  template <class F>
  auto cancellable(Session& session, F f) -> decltype(f()) {
    struct Running {
      Running(Server& s, Session& session) : server(s) {
        std::lock_guard lock(server.mutex_);
        if (server.cancelled_) throw Error(Code::kInterrupted, "[worker] cancelled before it began");
        server.running_ = &session;
      }
      ~Running() {
        std::lock_guard lock(server.mutex_);
        server.running_ = nullptr;
      }
      Server& server;
    } running(*this, session);
    return f();
  }

  // Outputs have names that no other blob has, so that the reader may remove each when it has mapped it.
  std::string put(const Tensor& tensor) {
    std::string name = fmt::format("{}-{}-{}", xxh3_hex(tensor.bytes()), ::getpid(), ++last_blob_);
    if (kept_) outputs_.push_back({name, tensor});
    else if (!write_blob(options_.blobs, name, tensor.bytes())) throw no_room(options_.blobs, tensor.bytes().size());
    return name;
  }

  void reply(const json& id, json result) { writer_.write({{"id", id}, {"ok", std::move(result)}}); }
  void reply_error(const json& id, Code code, std::string_view message) {
    writer_.write({{"id", id}, {"error", error_to_json(code, message)}});
  }

  Runner& runner_;
  const ServeOptions& options_;
  LineReader reader_;
  LineWriter writer_;
  bool shut_down_ = false;
  std::map<int64_t, std::unique_ptr<Session>> sessions_;  // of the executor
  int64_t last_session_ = 0, last_blob_ = 0;
  std::map<std::string, Blob> at_hand_;  // of the request that is being done
  std::vector<NamedBlob> outputs_;       // of its reply, over a link
  const GetBlob get_ = [this](const std::string& name) {
    auto it = at_hand_.find(name);
    return it != at_hand_.end() ? it->second : read_blob(options_.blobs, name);
  };

  std::optional<KeptBlobs> kept_;  // over a link
  std::mutex kept_mutex_;          // of it
  std::string no_room_;            // why the last blob was not kept

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> queue_;
  json current_;                // id of the request that is being done
  bool cancelled_ = false;      // it is
  Session* running_ = nullptr;  // where it can be stopped
  bool closed_ = false, finished_ = false;
};

// Of a request: an object with an integer.
json id_of(const json& message) {
  return message.is_object() && message.contains("id") && message["id"].is_number_integer() ? message["id"] : json();
}

}  // namespace

void serve_refusal(const Error& reason, int in, int out) {
  std::string line;
  if (!LineReader(in).next(line)) return;
  json id = id_of(internal::parse_json_if_any(line));
  LineWriter(out).write({{"id", id}, {"error", error_to_json(reason.code(), reason.what())}});
}

void serve_worker(Runner& runner, int in, int out, const ServeOptions& options) {
  Server(runner, in, out, options).serve();
}

}  // namespace seqto
