"""moh serve on the simulated GPU gives the texts and log-probabilities of the CPU."""

import concurrent.futures
import pathlib
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import serve_support  # noqa: E402
import support  # noqa: E402


class ServeOnGpu(support.MohTest):
    def compare(self, settings):
        self.train({**serve_support.MODEL, "model.max_positions": 64, **settings})
        servers = [serve_support.Server(self, "--device", device) for device in ("cpu", "cuda")]
        prompts = ["the", "a gate of", "the router keeps few heads", "x"]
        wanted = {"max_tokens": 6, "temperature": 0, "logprobs": 2, "echo": True}
        answers = []
        for server in servers:
            with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
                answers.append(list(pool.map(lambda prompt: server.complete(prompt, **wanted)["choices"][0], prompts)))
            answers[-1] += server.complete(prompts[0], n=2, seed=5, max_tokens=4, logprobs=0)["choices"]
        for cpu, gpu in zip(*answers):
            self.assertEqual(gpu["text"], cpu["text"])
            self.assertEqual(gpu["logprobs"]["tokens"], cpu["logprobs"]["tokens"])
            for one, other in zip(gpu["logprobs"]["token_logprobs"], cpu["logprobs"]["token_logprobs"]):
                if one is not None:
                    self.assertAlmostEqual(one, other, places=4)
        for server in servers:
            self.assertEqual(server.stop(), support.DONE)

    def test_moh(self):
        self.compare({})

    def test_dense(self):
        self.compare(support.DENSE)

    def test_query_norm_with_windows(self):
        self.compare({**support.QUERY_NORM, "model.sliding_window": 8})


if __name__ == "__main__":
    unittest.main()
