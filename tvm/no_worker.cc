#include "worker.h"

namespace seqto::on_tvm {

void work(const WorkerOptions&) {
  throw Error(Code::kUnavailable, "[worker] this seqto-tvm was built for a device: it knows 'serve' only");
}

}  // namespace seqto::on_tvm
