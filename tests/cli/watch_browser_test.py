"""The page of moh watch in a headless Chromium: it draws runs, scrolls through a long one smoothly, and asks nobody else."""

import sys
import unittest

import browser
import serve_support
import support
import watch_support

READY = "state.charts.size > 0 && state.loaded > 0.999"
# Frames are counted while the mouse's wheel zooms and moves the charts; the time of a frame is that between two of them.
FRAMES = """new Promise(done => {
  const chart = [...state.charts.values()][0], canvas = chart.canvas, box = canvas.getBoundingClientRect(), times = [];
  let left = %d, last = performance.now();
  function next(now) {
    times.push(now - last);
    last = now;
    if (left-- === 0) return done(times.slice(1));
    const zooms = left %% 60 < 30;
    canvas.dispatchEvent(new WheelEvent("wheel", { bubbles: true, cancelable: true, clientX: box.left + box.width / 2, clientY: box.top + 50,
      deltaX: zooms ? 0 : (left %% 120 < 60 ? 40 : -40), deltaY: zooms ? (left %% 120 < 60 ? -60 : 60) : 0 }));
    requestAnimationFrame(next);
  }
  requestAnimationFrame(next);
})"""

DRAWING = """(() => {
  const begin = performance.now();
  for (let i = 0; i < 20; i++) for (const chart of state.charts.values()) drawChart(chart);
  return (performance.now() - begin) / 20;
})()"""


def at_share(values, share):
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


@unittest.skipUnless(browser.program(), "needs Chromium")
class Page(support.MohTest):
    def page(self, *arguments):
        server = serve_support.HttpProcess(self, "watch", *arguments)
        page = browser.Browser()
        self.addCleanup(page.close)
        page.open(server.url + "/")
        page.wait_for(READY)
        return page

    def test_a_run_of_100000_records_scrolls_smoothly(self):
        watch_support.make_run(self.folder / "run", 100000)
        page = self.page("run")
        self.assertGreaterEqual(page.evaluate("state.charts.size"), 6)
        times = page.evaluate(FRAMES % 240)
        drawing = page.evaluate(DRAWING)
        print(f"{len(times)} frames: median {at_share(times, 0.5):.1f} ms, 95% within {at_share(times, 0.95):.1f} ms, longest {max(times):.1f} ms; "
              f"drawing {page.evaluate('state.charts.size')} charts: {drawing:.1f} ms")
        self.assertLess(at_share(times, 0.5), 100)
        page.wait_for("!asking && state.revision !== ''")
        shown = page.evaluate("[state.from, state.to, state.curves['train/loss'][0].steps.length]")
        self.assertLess(shown[2], 10000)  # the server thins
        page.evaluate("resetWindow()")
        page.wait_for("state.from === 0 && state.to === null && !asking")
        self.assertEqual(page.faults(), [])

    def test_runs_bands_heads_samples_and_traces(self):
        for i in range(12):
            watch_support.make_run(self.folder / f"runs/{i:02}", 40, seed=i % 3 + 1, settings=f"model: {{width: {i // 3}}}\n")
        self.write("runs/00/sample.txt", "To be <b>bold</b>\n")
        self.write("runs/00/trace.json", '{"traceEvents":[{"ph":"X","name":"forward","ts":1,"dur":5,"tid":1},{"ph":"X","name":"matmul","ts":2,"dur":1,"tid":1}]}')
        picture = self.folder / "runs/00/samples/step_00000040.png"
        picture.parent.mkdir()
        picture.write_bytes(support.png(2, 1, b"\0abcdef"))
        page = self.page()
        self.assertEqual(page.evaluate("document.querySelectorAll('#runs li').length"), 12)
        self.assertEqual(page.evaluate("state.curves['train/loss'].length"), 12)
        page.evaluate("byId('bands').click()")
        page.wait_for("state.curves['train/loss']?.length === 4 && state.curves['train/loss'][0].runs.length === 3")
        page.evaluate("byId('filter').value = 'width=2'; byId('filter').oninput(); byId('all').click()")
        page.wait_for("state.curves['train/loss']?.length === 1")
        self.assertEqual(page.evaluate("labelOf(state.curves['train/loss'][0].runs)"), "model.width=2 (3 seeds)")

        page.wait_for("heads.layers.length === 4 && !byId('heads').hidden")
        self.assertEqual(page.evaluate("byId('step').textContent"), "step 40")
        page.evaluate("byId('frame').value = 4; byId('frame').oninput()")
        page.wait_for("byId('step').textContent === 'step 5'")
        self.assertEqual(page.evaluate("document.querySelector('#samples pre').textContent"), "To be <b>bold</b>\n")
        page.wait_for("document.querySelector('#samples img').complete")
        self.assertEqual(page.evaluate("document.querySelector('#samples img').naturalWidth"), 2)
        page.evaluate("document.querySelector('#traces button').click()")
        page.wait_for("document.querySelector('#traces canvas')?.width > 100")

        # Records that are written while the page is open appear.
        with open(self.folder / "runs/06/metrics.jsonl", "a") as metrics:
            metrics.writelines(watch_support.records(50, first=41))
        page.wait_for("state.last === 50")
        self.assertEqual(page.faults(), [])


if __name__ == "__main__":
    if not browser.program():
        print("moh test skipped: needs Chromium, Debian's package chromium")
        sys.exit(support.SKIPPED)
    unittest.main()
