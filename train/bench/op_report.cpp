#include <cstdio>
#include <nlohmann/json.hpp>
#include <ostream>

#include "train/bench/op_bench.h"

namespace moh {

void write_json_line(std::ostream& out, const OpBenchRecord& r) {
  const nlohmann::ordered_json object = {{"op", r.op},           {"model", r.model},   {"pass", r.pass},
                                         {"shape", r.shape},     {"device", r.device}, {"dtype", r.dtype},
                                         {"threads", r.threads}, {"ms", r.ms},         {"spread", r.spread},
                                         {"unit", r.unit},       {"rate", r.rate},     {"ceiling", r.ceiling},
                                         {"share", r.share()}};
  out << object.dump() << '\n';
}

void write_op_table_head(std::ostream& out) {
  out << "op                   shape                     pass                ms  spread      rate            "
         "share  model\n";
}

void write_table_line(std::ostream& out, const OpBenchRecord& r) {
  char time[24] = "", line[200];
  if (r.ms > 0) std::snprintf(time, sizeof time, "%10.3f  %5.1f%%", r.ms, r.spread * 100);  // not of ceilings
  std::snprintf(line, sizeof line, "%-19s  %-24s  %-10s  %18s  %8.1f %-8s  %6.1f%%  %s", r.op.c_str(),
                r.shape.c_str(), r.pass.c_str(), time, r.rate, r.unit.c_str(), r.share() * 100,
                r.model.c_str());
  std::string text = line;
  text.erase(text.find_last_not_of(' ') + 1);
  out << text << '\n';
}

}  // namespace moh
