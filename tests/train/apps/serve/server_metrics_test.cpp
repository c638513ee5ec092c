#include "train/apps/serve/server_metrics.h"

#include <catch2/catch.hpp>

using namespace moh;

TEST_CASE("serve: a histogram counts what is at most its bounds, each bucket with those before") {
  Histogram histogram({1, 2.5});
  for (const double value : {0.5, 1.0, 2.0, 2.5, 7.0}) histogram.observe(value);
  CHECK(histogram.text("h") ==
        "h_bucket{le=\"1\"} 2\nh_bucket{le=\"2.5\"} 4\nh_bucket{le=\"+Inf\"} 5\nh_sum 13\nh_count 5\n");
}

TEST_CASE("serve: metrics have the form of Prometheus") {
  ServerMetrics metrics;
  metrics.answered("/v1/completions", 200, 0.02);
  metrics.answered("/v1/completions", 200, 0.2);
  metrics.answered("/v1/completions", 400, 0.001);
  metrics.refused(413);
  metrics.generated_tokens += 7;
  metrics.prefix_hit_tokens += 30;
  metrics.prefix_miss_tokens += 4;
  metrics.prefix_bytes = 1024;
  const std::string text = metrics.text();
  CHECK_THAT(text, Catch::Contains("# TYPE moh_requests_total counter\n"
                                   "moh_requests_total{path=\"/v1/completions\",status=\"200\"} 2\n"
                                   "moh_requests_total{path=\"/v1/completions\",status=\"400\"} 1\n"
                                   "moh_requests_total{path=\"unread\",status=\"413\"} 1\n"));
  CHECK_THAT(text, Catch::Contains("\nmoh_generated_tokens_total 7\n"));
  CHECK_THAT(text, Catch::Contains("\nmoh_request_seconds_count 3\n"));
  CHECK_THAT(text, Catch::Contains("\nmoh_prefix_cache_hit_tokens_total 30\n"));
  CHECK_THAT(text, Catch::Contains("\nmoh_prefix_cache_miss_tokens_total 4\n"));
  CHECK_THAT(text, Catch::Contains("# TYPE moh_prefix_cache_bytes gauge\nmoh_prefix_cache_bytes 1024\n"));
}
