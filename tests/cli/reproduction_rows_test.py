"""The rows of the paper's tables (scripts/reproduction), each a configuration of the tree with settings: they load, are models of the published
sizes and shares of heads, train by the paper's recipes, and change what they are called."""

import os
import pathlib
import subprocess
import sys

import support

ROOT = pathlib.Path(os.environ["MOH_SOURCE_DIR"])
sys.path.insert(0, str(ROOT / "scripts"))

import reproduce
import resolved_config
from reproduction import image_tables, moh

ROWS = {(name, row.name): row for name, table in reproduce.TABLES.items() for row in table.rows}
# By the formulas of the sizes, not by making the models: of the backbone, its routers, what a baseline changes; and the active heads in
# percent.
SIZES = {
    "vit_imagenet": {"TransNeXt-S": (49741564, 100), "TransNeXt-B": (89721496, 100), "MoH-ViT-S 80%": (49910548, 79.95),
                     "MoH-ViT-S 75%": (49910548, 75.29), "MoH-ViT-B 75%": (90020632, 75), "MoH-ViT-B 50%": (90023512, 50),
                     "DeiT-S": (22050664, 100), "DeiT-B": (86567656, 100)},
    "ablation_components": {"full": (49910548, 75.29), "no shared heads": (49892116, 75.29),
                            "shared heads, no two-stage routing": (49892116, 75.29)},
    "ablation_shared_ratio": {"40.5% shared": (49910548, 75.29), "13.9% shared": (49892116, 75.29), "27.6% shared": (49904788, 75.29),
                              "31.3% shared": (49906228, 75.29), "35.9% shared": (49907668, 75.29), "37.5% shared": (49910548, 75.29),
                              "46.8% shared": (49910548, 75.29), "60.4% shared": (49910548, 75.29), "74.0% shared": (49910548, 75.29)},
    "ablation_activated_ratio": {"75% active": (49910548, 75.29), "50% active": (49910548, 50.12), "55% active": (49910548, 55.24),
                                 "60% active": (49910548, 60.37), "65% active": (49910548, 65.5), "70% active": (49910548, 70.16),
                                 "80% active": (49910548, 79.95)},
    "review_moa": {"MoH": (49910548, 75.29), "MoA": (43141012, 75.29)},
    "review_sparse": {"MoH": (49910548, 75.29), "sparse attention": (49741564, 100), "attention of experts: no shared heads": (49892116, 75.29)},
    "review_learnable_masks": {"dense": (89721496, 100), "chosen by hand 75%": (90020632, 75), "chosen by hand 50%": (90023512, 50),
                               "learned 50%": (90298480, 50)},
    "review_k_ratio": {"K 1/4": (90298480, 50), "K 1/8": (90298480, 40.48), "K 1/2": (90298480, 69.39)},
    "review_moe_ffn": {"dense": (28258960, 100), "MoH": (28351552, 75.2), "two feed-forward experts": (44570560, 100),
                       "MoH and two feed-forward experts": (44663152, 75.2)},
}
SMALL_HEADS = {"full": 75, "dense": 100, "no_shared": 75, "one_stage": 75, "shared_19": 75, "shared_57": 75, "shared_76": 75,
               "active_57": 57.14, "active_75": 75, "active_86": 85.71, "moa": 75, "sparse": 100, "learned_125": 42.86, "learned_25": 50,
               "learned_5": 71.43, "moe": 100, "moh_moe": 75}


def trainings():
    """(configuration, settings) of all rows at full size, and of their small forms but continuations, which begin from a run."""
    found = {(row.config, row.settings): None for row in ROWS.values() if row.config}
    forms = [row.small for row in ROWS.values() if row.small] + list(image_tables.SMALL.values())
    found.update({(form.config, form.settings): None for form in forms})
    return [(config, settings) for config, settings in found if "init:" not in (ROOT / config).read_text(encoding="utf-8")]


def printed(config, settings=()):
    return subprocess.run([support.MOH, "config", ROOT / config, *settings], capture_output=True, text=True, check=True).stdout


def read(table, row):
    return resolved_config.read(printed(ROWS[table, row].config, ROWS[table, row].settings))


class Rows(support.MohTest):
    def test_they_load_and_their_resolved_form_reads_back(self):
        checked = trainings()
        self.assertGreater(len(checked), 80)
        for config, settings in checked:
            with self.subTest(config=config, settings=settings):
                resolved = printed(config, settings)
                self.assertEqual(printed(self.write("resolved.yaml", resolved)), resolved)

    def test_models_have_the_published_sizes(self):
        for table, sizes in SIZES.items():
            self.assertEqual([row.name for row in reproduce.TABLES[table].rows if row.name not in sizes], [])
            for name, (parameters, heads) in sizes.items():
                with self.subTest(table=table, row=name):
                    plan = moh.plan(support.MOH, ROOT / ROWS[table, name].config, ROWS[table, name].settings)
                    self.assertEqual(plan["parameters"], parameters)
                    self.assertAlmostEqual(100 * plan["activated_heads"], heads, delta=0.01)
        self.assertEqual(set(image_tables.SMALL), set(SMALL_HEADS))
        for name, form in image_tables.SMALL.items():
            with self.subTest(small=name):
                plan = moh.plan(support.MOH, ROOT / form.config, (*form.settings, "data.train=[]", "data.validation=[]", "data.drawn=64",
                                                                  "data.drawn_validation=64"))
                self.assertAlmostEqual(100 * plan["activated_heads"], SMALL_HEADS[name], delta=0.01)

    def test_classifiers_have_the_paper_s_recipe_at_100_epochs_of_its_300_in_ablations(self):
        for table in SIZES:
            for row in reproduce.TABLES[table].rows:
                with self.subTest(table=table, row=row.name):
                    config = read(table, row.name)
                    of_ablations = reproduce.TABLES[table].items == 100 * image_tables.EPOCH
                    self.assertEqual((config["train"]["epochs"], config["schedule"]["decay_epochs"]), (100, 300) if of_ablations else (300, 0))
                    self.assertEqual(config["train"]["batch_size"] * config["train"]["accumulate"], 1024)
                    self.assertEqual(config["optim"]["learning_rate"], 1e-3)
                    self.assertEqual(config["optim"]["clip_grad_norm"], 0 if row.name.startswith("DeiT") else 1)
                    self.assertEqual(config["precision"], "bfloat16")
                    self.assertGreater(config["model"]["drop_path"], 0)

    def test_what_an_ablation_of_classifiers_changes_is_what_it_is_called(self):
        self.assertIs(read("ablation_components", "shared heads, no two-stage routing")["model"]["moh"]["two_stage"], False)
        moa = read("review_moa", "MoA")["model"]
        self.assertIs(moa["transnext"]["single_kv_head"], True)
        # The weights are those of each layer, as in MoA's release.
        expected = {"gate_scaling": "paper", "balance_loss": "shares", "router_init": "zeros", "z_loss_weight": 0.001, "balance_weight": 0.01,
                    "balance_layers": "sum", "num_shared": [0, 0, 0, 0]}
        self.assertEqual({key: moa["moh"][key] for key in expected}, expected)
        self.assertEqual(read("review_sparse", "sparse attention")["model"]["transnext"]["kept_keys"], [100, 100, 75, 75])
        self.assertEqual(read("review_k_ratio", "K 1/4")["model"]["moh"]["learn_shared_until"], 0.5)
        self.assertEqual(read("review_moe_ffn", "two feed-forward experts")["model"]["transnext"]["experts"], 2)

    def test_shared_ratios_are_those_that_their_rows_print(self):
        layers = (5, 5, 22, 5)
        for row in reproduce.TABLES["ablation_shared_ratio"].rows:
            with self.subTest(row=row.name):
                heads = read("ablation_shared_ratio", row.name)["model"]["moh"]
                shared, selected = (sum(n * each for n, each in zip(layers, heads[key])) for key in ("num_shared", "top_k"))
                self.assertAlmostEqual(100 * shared / (shared + selected), float(row.name.partition("%")[0]), delta=0.06)

    def test_diffusion_models_train_as_the_released_code_does(self):
        steps = {"dit_small_to_large": 400000, "ablation_components_dit": 400000}
        for table in (*steps, "dit_xl"):
            for row in reproduce.TABLES[table].rows:
                with self.subTest(table=table, row=row.name):
                    config = read(table, row.name)
                    # Of each of 8 GPUs, whose load-balance losses are apart.
                    self.assertEqual((config["train"]["batch_size"], config["train"]["accumulate"]), (32, 8))
                    self.assertEqual((config["precision"], config["tf32"], config["device"]), ("float32", True, "cuda:0"))
                    self.assertEqual(config["ema"]["decay"], 0.9999)
                    self.assertEqual(config["train"]["steps"], steps.get(table, 2000000 if "75%" in row.name else 7000000))
                    kept = [400000, *([2000000] if "90%" in row.name else [])] if table == "dit_xl" else []
                    self.assertEqual(config["checkpoint"]["keep"], kept)

    def test_diffusion_ablations_keep_the_number_of_active_heads(self):
        full, no_shared, one_stage = (read("ablation_components_dit", row.name)["model"]["moh"]
                                      for row in reproduce.TABLES["ablation_components_dit"].rows)
        self.assertEqual(no_shared["num_shared"], [0] * 12)
        self.assertEqual((no_shared["two_stage"], one_stage["two_stage"]), (False, False))
        self.assertEqual(one_stage["num_shared"], full["num_shared"])
        self.assertEqual(no_shared["top_k"], [shared + selected for shared, selected in zip(full["num_shared"], full["top_k"])])

    def test_language_models_have_the_tokens_that_their_rows_say(self):
        for row in reproduce.TABLES["llm_from_scratch"].rows:
            with self.subTest(row=row.name):
                config = read("llm_from_scratch", row.name)
                per_step = config["train"]["batch_size"] * config["train"]["accumulate"] * config["data"]["sequence_length"]
                tokens = int(row.name.rpartition(", ")[2].removesuffix("B tokens")) * 10**9
                self.assertLess((config["train"]["steps"] - 1) * per_step, tokens)
                self.assertGreaterEqual(config["train"]["steps"] * per_step, tokens)


if __name__ == "__main__":
    support.main()
