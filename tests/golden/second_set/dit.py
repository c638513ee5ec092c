"""MoH-DiT: the attention layer, router edges, whole models with their diffusion process, the schedule's arrays."""

import math

import torch
from torch.nn import functional as F

from case import BALANCE_WEIGHT, Case, Run, linear, matrix, normal, with_clear_choices
from routing import Counter, head_weights, record_balances, router_parameters

STEPS = 1000


def attention_parameters(g, prefix, width, heads, head_dim, shared=None, kept=None):
    weights = {**linear(g, f"{prefix}qkv", 3 * heads * head_dim, width), **linear(g, f"{prefix}proj", width, heads * head_dim)}
    return weights if shared is None else {**weights, **router_parameters(g, prefix, width, heads, shared, kept)}


def attention(run, prefix, x, heads, routing, counter, inside=False, imposed=None):
    """From x [B, N, C]: the output and the balance loss. `routing`: (shared, kept), or None for a dense layer."""
    qkv = x @ run.param(f"{prefix}qkv.weight").T + run.param(f"{prefix}qkv.bias")
    q, k, v = qkv.view(*x.shape[:2], 3, heads, -1).permute(2, 0, 3, 1, 4)
    out = ((q @ k.transpose(-2, -1)) / math.sqrt(q.shape[-1])).softmax(-1) @ v
    out, balance = out.transpose(1, 2), None
    if routing is not None:
        name = counter.next_attention()
        if inside:
            run.record(f"inter.{name}.head_out", out)
        weights, balance = head_weights(run, prefix, x, heads, *routing, counter, imposed)
        run.record(f"inter.{name}.head_weights", weights)
        out = out * weights.unsqueeze(-1)
    return out.flatten(2) @ run.param(f"{prefix}proj.weight").T + run.param(f"{prefix}proj.bias"), balance


def layer_body(sub, heads, shared, kept, imposed=None):
    def body(run):
        own = [name for name in run.parameters() if name.startswith(f"param.{sub}")]
        x = run.differentiable(f"in.{sub}x")
        y, balance = attention(run, sub, x, heads, (shared, kept), Counter(sub), inside=True, imposed=imposed)
        run.record(f"out.{sub}y", y)
        run.record(f"out.{sub}lb_loss", torch.zeros((), dtype=run.dtype) if balance is None else balance)
        run.test_loss(f"out.{sub}loss", y, f"w.{sub}y", balance, (f"in.{sub}x",), own)
        if balance is not None:
            run.gradients("grad_lb", balance, [f"param.{sub}wg.weight", f"in.{sub}x"])
    return body


def attention_case(dim, heads, shared, kept, head_dim, batch, tokens):
    config = {"dim": dim, "num_heads": heads, "shared_head": shared, "routed_head": kept, "head_dim": head_dim, "B": batch,
              "N": tokens}

    def make(g):
        tensors = {"in.x": normal(g, batch, tokens, dim), "w.y": normal(g, batch, tokens, dim),
                   **attention_parameters(g, "", dim, heads, head_dim, shared, kept)}
        return Case("dit_moh_attention", config, tensors, layer_body("", heads, shared, kept))
    return with_clear_choices(make)


EDGES = {"every_routed": (4, 1 + 1, 2), "one_of_many": (7, 2, 1), "alone": (3, 0, 1), "equal": (5, 2, 2)}  # H, S, K


def edges_case():
    def make(g):
        tensors, bodies = {}, []
        for name, (heads, shared, kept) in EDGES.items():
            sub, width, imposed = f"{name}.", 4 * heads, None
            tensors |= {f"in.{sub}x": normal(g, 2, 5, width), f"w.{sub}y": normal(g, 2, 5, width),
                        **attention_parameters(g, sub, width, heads, 4, shared, kept)}
            if name == "equal":
                tensors[f"param.{sub}wg.weight"].zero_()
                imposed = torch.tensor([[2, 0]] * 10)
            bodies.append(layer_body(sub, heads, shared, kept, imposed))
        ties = torch.tensor([[0.3, 0.1, 0.3, 0.2, 0.1], [0.2] * 5]).double()
        tensors["in.ties.e5.gates"] = ties

        def body(run):
            for each in bodies:
                each(run)
            for kept in (1, 2, 4):
                run.record(f"out.ties.e5.k{kept}.indices", ties.topk(kept).indices)
        return Case("moh_router_edges", {"sub": {name: {} for name in EDGES}}, tensors, body)
    return with_clear_choices(make)


class Schedule:
    """The arrays of a diffusion process of kept steps, by the reference's names, float64."""

    def __init__(self, kept=None):
        products = torch.cumprod(1 - torch.linspace(1e-4, 0.02, STEPS, dtype=torch.float64), 0)
        self.timestep_map = torch.arange(STEPS) if kept is None else torch.tensor(kept)
        ac = products[self.timestep_map]
        before = torch.cat([torch.ones(1, dtype=torch.float64), ac[:-1]])
        betas = 1 - ac / before
        variance = betas * (1 - before) / (1 - ac)
        self.arrays = {
            "betas": betas, "log_betas": betas.log(), "alphas_cumprod": ac, "alphas_cumprod_prev": before,
            "alphas_cumprod_next": torch.cat([ac[1:], torch.zeros(1, dtype=torch.float64)]),
            "sqrt_alphas_cumprod": ac.sqrt(), "sqrt_one_minus_alphas_cumprod": (1 - ac).sqrt(),
            "log_one_minus_alphas_cumprod": (1 - ac).log(), "sqrt_recip_alphas_cumprod": (1 / ac).sqrt(),
            "sqrt_recipm1_alphas_cumprod": (1 / ac - 1).sqrt(), "posterior_variance": variance,
            "posterior_log_variance_clipped": torch.cat([variance[1:2], variance[1:]]).log(),
            "posterior_mean_coef1": betas * before.sqrt() / (1 - ac),
            "posterior_mean_coef2": (1 - before) * (1 - betas).sqrt() / (1 - ac)}

    def at(self, name, t, run):
        """[B, 1, 1, 1], rounded to float32 as the released code does when it uses them."""
        return self.arrays[name][t].float().to(run.dtype)[:, None, None, None]


def kept_steps(text):
    """Steps that a respacing keeps: a count, counts of equal sections, or "ddimN"."""
    if text.startswith("ddim"):
        count = int(text[4:])
        return next(list(range(0, STEPS, stride)) for stride in range(1, STEPS) if len(range(0, STEPS, stride)) == count)
    counts, kept, start = [int(each) for each in text.split(",")], [], 0
    for number, count in enumerate(counts):
        length = STEPS // len(counts) + (number < STEPS % len(counts))
        stride, place = (length - 1) / (count - 1) if count > 1 else 1, 0.0
        for _ in range(count):
            kept.append(start + round(place))
            place += stride
        start += length
    return kept


def positions(grid, width):
    frequencies = 10000.0 ** -(torch.arange(width // 4, dtype=torch.float64) / (width // 4))
    rows, columns = torch.meshgrid(*[torch.arange(grid, dtype=torch.float64)] * 2, indexing="ij")
    halves = [(axis.flatten()[:, None] * frequencies) for axis in (columns, rows)]
    return torch.cat([function(angles) for angles in halves for function in (torch.sin, torch.cos)], 1)


def time_embedding(t, width):
    angles = t.double()[:, None] * torch.exp(-math.log(10000) * torch.arange(width // 2, dtype=torch.float64) / (width // 2))
    return torch.cat([angles.cos(), angles.sin()], 1)


def schedule_case():
    g = torch.Generator().manual_seed(3)
    config = {"B": 3, "t": [2.0, 500.0, 998.0], "freq": 128, "pos_dim": 32, "pos_grid": 5,
              "respacings": {"whole": "", "few": "20", "sections": "7,3"}, "maps": ["8", "40,2,1", "ddim20"]}
    tensors = {"in.t_embed": torch.tensor(config["t"]).double(), "in.x_start": normal(g, 3, 4, 2, 2), "in.noise": normal(g, 3, 4, 2, 2)}

    def body(run):
        for name, text in config["respacings"].items():
            schedule = Schedule(kept_steps(text) if text else None)
            for array, values in schedule.arrays.items():
                run.record(f"out.{name}.{array}", values)
            run.record(f"out.{name}.timestep_map", schedule.timestep_map)
        for text in config["maps"]:
            run.record(f"out.map.{text}", torch.tensor(kept_steps(text)))
        run.record("out.pos_embed", positions(config["pos_grid"], config["pos_dim"]))
        run.record("out.timestep_embedding", time_embedding(run["in.t_embed"], config["freq"]).to(run.dtype))
        run.record("out.q_sample", noised(Schedule(), run, run["in.x_start"], run["in.noise"], run["in.t_embed"].long()))
    names = tuple(f"out.{name}" for name in (*config["respacings"], "pos_embed"))
    return Case("dit_schedule", config, tensors, body, float64=names)


def noised(schedule, run, start, noise, t):
    return schedule.at("sqrt_alphas_cumprod", t, run) * start + schedule.at("sqrt_one_minus_alphas_cumprod", t, run) * noise


class Model:
    def __init__(self, config):
        c = self.config = config
        self.heads = c["num_heads"] if isinstance(c["num_heads"], list) else [c["num_heads"]] * c["depth"]
        head_dim = c.get("head_dim") if isinstance(c["num_heads"], list) else None
        self.head_dims = [head_dim or c["hidden_size"] // heads for heads in self.heads]
        self.routings = list(zip(c["shared_head"], c["routed_head"])) if "shared_head" in c else [None] * c["depth"]
        self.side = c["input_size"] // c["patch_size"]

    def parameters(self, g):
        c = self.config
        width, patch, channels = c["hidden_size"], c["patch_size"], c["in_channels"]
        hidden = int(width * c["mlp_ratio"])
        tensors = {"param.pos_embed": positions(self.side, width).float().double()[None],
                   "param.x_embedder.proj.weight": matrix(g, width, channels, patch, patch),
                   "param.x_embedder.proj.bias": normal(g, width, scale=0.3),
                   **linear(g, "t_embedder.mlp.0", width, 256), **linear(g, "t_embedder.mlp.2", width, width),
                   "param.y_embedder.embedding_table.weight": normal(g, c["num_classes"] + 1, width)}
        for i, (heads, head_dim, routing) in enumerate(zip(self.heads, self.head_dims, self.routings)):
            block = f"blocks.{i}."
            tensors |= {**attention_parameters(g, block + "attn.", width, heads, head_dim, *(routing or ())),
                        **linear(g, block + "mlp.fc1", hidden, width), **linear(g, block + "mlp.fc2", width, hidden),
                        **linear(g, block + "adaLN_modulation.1", 6 * width, width)}
        last = linear(g, "final_layer.linear", 2 * patch * patch * channels, width)
        # With small outputs no likelihood vanishes in float32.
        return {**tensors, **{name: (0.2 * value).float().double() for name, value in last.items()},
                **linear(g, "final_layer.adaLN_modulation.1", 2 * width, width)}

    def forward(self, run, x, t, y):
        """Prediction [B, 2 C, side, side] and the balance losses of the layers."""
        c = self.config

        def affine(name, value):
            return value @ run.param(f"{name}.weight").T + run.param(f"{name}.bias")

        def modulated(value, shift, scale):
            return F.layer_norm(value, value.shape[-1:], eps=1e-6) * (1 + scale[:, None]) + shift[:, None]

        time = affine("t_embedder.mlp.2", F.silu(affine("t_embedder.mlp.0", time_embedding(t, 256).to(run.dtype))))
        condition = F.silu(time + run.param("y_embedder.embedding_table.weight")[y])
        patch = c["patch_size"]
        h = F.conv2d(x, run.param("x_embedder.proj.weight"), run.param("x_embedder.proj.bias"), stride=patch)
        h = h.flatten(2).transpose(1, 2) + run.param("pos_embed")
        counter, balances = Counter(), []
        for i, (heads, routing) in enumerate(zip(self.heads, self.routings)):
            block = f"blocks.{i}"
            rows = affine(f"{block}.adaLN_modulation.1", condition).chunk(6, 1)
            out, balance = attention(run, f"{block}.attn.", modulated(h, rows[0], rows[1]), heads, routing, counter)
            h = h + rows[2][:, None] * out
            inner = F.gelu(affine(f"{block}.mlp.fc1", modulated(h, rows[3], rows[4])), approximate="tanh")
            h = h + rows[5][:, None] * affine(f"{block}.mlp.fc2", inner)
            balances.append(balance)
            if routing is not None:
                run.record(f"inter.block{i}.out", h)
        rows = affine("final_layer.adaLN_modulation.1", condition).chunk(2, 1)
        out = affine("final_layer.linear", modulated(h, *rows)).view(len(x), self.side, self.side, patch, patch, -1)
        return out.permute(0, 5, 1, 3, 2, 4).reshape(len(x), -1, *x.shape[2:]), balances


class Quiet(Run):
    """A run beside another one, whose records nobody wants."""

    def __init__(self, run):
        self.dtype, self.tensors, self.results, self.min_gap = run.dtype, run.tensors, {}, math.inf


def predicted(model, run, x, t, y):
    """The prediction of a forward pass whose inside is not recorded; its gaps count."""
    quiet = Quiet(run)
    prediction, balances = model.forward(quiet, x, t, y)
    run.min_gap = min(run.min_gap, quiet.min_gap)
    return prediction, balances


def reverse(schedule, run, x, output, t, clip):
    eps, v = output.chunk(2, 1)
    share = (v + 1) / 2
    log_variance = share * schedule.at("log_betas", t, run) + (1 - share) * schedule.at("posterior_log_variance_clipped", t, run)
    start = schedule.at("sqrt_recip_alphas_cumprod", t, run) * x - schedule.at("sqrt_recipm1_alphas_cumprod", t, run) * eps
    start = start.clamp(-1, 1) if clip else start
    mean = schedule.at("posterior_mean_coef1", t, run) * start + schedule.at("posterior_mean_coef2", t, run) * x
    return start, mean, log_variance


def ancestral(schedule, run, x, output, t, clip, noise):
    _, mean, log_variance = reverse(schedule, run, x, output, t, clip)
    return mean + (t != 0)[:, None, None, None] * (log_variance / 2).exp() * noise


def ddim(schedule, run, x, output, t, clip, noise, eta):
    start, _, _ = reverse(schedule, run, x, output, t, clip)
    eps = (schedule.at("sqrt_recip_alphas_cumprod", t, run) * x - start) / schedule.at("sqrt_recipm1_alphas_cumprod", t, run)
    ac, before = schedule.at("alphas_cumprod", t, run), schedule.at("alphas_cumprod_prev", t, run)
    sigma = eta * ((1 - before) / (1 - ac)).sqrt() * (1 - ac / before).sqrt()
    return start * before.sqrt() + (1 - before - sigma**2).sqrt() * eps + (t != 0)[:, None, None, None] * sigma * noise


def bound(schedule, run, start, x, output, t):
    """The variational bound in bits per element, [B]; of the noise's part no gradient."""
    eps, v = output.chunk(2, 1)
    _, mean, log_variance = reverse(schedule, run, x, torch.cat([eps.detach(), v], 1), t, clip=False)
    true = schedule.at("posterior_mean_coef1", t, run) * start + schedule.at("posterior_mean_coef2", t, run) * x
    smallest = schedule.at("posterior_log_variance_clipped", t, run)
    divergence = 0.5 * (log_variance - smallest - 1 + (smallest - log_variance).exp() + (true - mean) ** 2 * (-log_variance).exp())

    def cdf(value):
        return 0.5 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (value + 0.044715 * value**3)))

    scale = (-log_variance / 2).exp()
    above, below = cdf(scale * (start - mean + 1 / 255)), cdf(scale * (start - mean - 1 / 255))
    share = torch.where(start < -0.999, above, torch.where(start > 0.999, 1 - below, above - below)).clamp_min(1e-12)
    return torch.where((t == 0)[:, None, None, None], -share.log(), divergence).mean((1, 2, 3)) / math.log(2)


def training(model, run):
    schedule, t = Schedule(), run["in.train.t"]
    start, noise = run["in.train.x_start"], run["in.train.noise"]
    x = noised(schedule, run, start, noise, t)
    output, balances = predicted(model, run, x, t, run["in.y"])
    mse = ((noise - output.chunk(2, 1)[0]) ** 2).mean((1, 2, 3))
    vb = bound(schedule, run, start, x, output, t)
    balances = [each for each in balances if each is not None]
    balance = torch.stack(balances).mean()
    total = (mse + vb).mean() + BALANCE_WEIGHT * balance
    for name, value in {"x_t": x, "model_output": output, "mse": mse, "vb": vb, "loss": mse + vb, "lb_loss": balance,
                        "total": total}.items():
        run.record(f"out.train_terms.{name}", value)
    run.gradients("grad_train", total, [name for name in run.parameters() if ".0." in name or "final" in name])


def sampling(model, run, etas):
    c, y = model.config, run["in.y"]
    schedule, t, x = Schedule(kept_steps("250")), run["in.step.t"], run["in.step.x"]
    run.record("out.step.mapped_t", schedule.timestep_map[t])
    output, _ = predicted(model, run, x, schedule.timestep_map[t], y)
    run.record("out.step.model_output", output)
    for kind, clip in (("clip", True), ("noclip", False)):
        start, mean, log_variance = reverse(schedule, run, x, output, t, clip)
        sample = ancestral(schedule, run, x, output, t, clip, run["in.step.noise"])
        for name, value in {"sample": sample, "pred_xstart": start, "mean": mean, "log_variance": log_variance}.items():
            run.record(f"out.p_sample.{kind}.{name}", value)
        for eta in etas:
            run.record(f"out.ddim.{kind}.eta{eta}.sample", ddim(schedule, run, x, output, t, clip, run["in.step.noise"], eta))

    pairs, scale = c["cfg_pairs"], c["cfg_scale"]

    def guided(both, steps):
        half = both[:pairs]
        out, _ = predicted(model, run, torch.cat([half, half]), steps, run["in.cfg.y"])
        with_label, without = out[:pairs, :3], out[pairs:, :3]
        eps = without + scale * (with_label - without)
        return torch.cat([torch.cat([eps, eps]), out[:, 3:]], 1)

    run.record("out.cfg", guided(run["in.cfg.x"], run["in.cfg.t"]))
    short = Schedule(kept_steps(str(c["loop_steps"])))
    for kind, clip in (("clip", True), ("noclip", False)):
        for name, step in (("p_loop", ancestral), ("ddim_loop", lambda *each: ddim(*each, 0.0))):
            z = run["in.loop.z"]
            for i in range(c["loop_steps"]):
                now = torch.full((2 * pairs,), c["loop_steps"] - 1 - i)
                z = step(short, run, z, guided(z, short.timestep_map[now]), now, clip, run["in.loop.noise"][i])
            run.record(f"out.{name}.{kind}", z)


def model_case(config, etas=(0.0, 0.7)):
    model, c = Model(config), config
    image = (c["in_channels"], c["input_size"], c["input_size"])

    def make(g):
        tensors = {"in.x": normal(g, c["B"], *image), "in.t": torch.tensor(c["t"]), "w.out": normal(g, c["B"], 2 * image[0], *image[1:]),
                   "in.y": torch.randint(c["num_classes"], (c["B"],), generator=g), **model.parameters(g)}
        if c.get("extras"):
            both, labels = 2 * c["cfg_pairs"], torch.randint(c["num_classes"], (c["cfg_pairs"],), generator=g)
            start = normal(g, c["B"], *image).clamp(-1, 1)
            tensors |= {"in.train.x_start": start, "in.train.noise": normal(g, c["B"], *image), "in.train.t": torch.tensor(c["train_t"]),
                        "in.step.x": normal(g, c["B"], *image), "in.step.noise": normal(g, c["B"], *image),
                        "in.step.t": torch.tensor(c["step_t"]), "in.drop_ids": torch.arange(c["B"]) % 2,
                        "in.cfg.x": normal(g, both, *image), "in.cfg.t": torch.randint(STEPS, (both,), generator=g),
                        "in.cfg.y": torch.cat([labels, torch.full_like(labels, c["num_classes"])]),
                        "in.loop.z": normal(g, both, *image), "in.loop.noise": normal(g, c["loop_steps"], both, *image)}

        def body(run):
            x = run.differentiable("in.x")
            output, balances = model.forward(run, x, run["in.t"], run["in.y"])
            balance = None
            run.record("out.eval", output)
            if "shared_head" in c:
                run.record("out.train", output)
                balance = record_balances(run, balances)
            run.test_loss("out.loss", output, "w.out", balance)
            if balance is not None:
                run.gradients("grad_lb", balance, [name for name in run.parameters() if name.endswith(".wg.weight")] + ["in.x"])
            if not c.get("extras"):
                return
            training(model, run)
            with torch.no_grad():
                labels = torch.where(run["in.drop_ids"] == 1, c["num_classes"], run["in.y"])
                run.record("out.drop.labels", labels)
                run.record("out.drop.eval", predicted(model, run, x, run["in.t"], labels)[0])
                sampling(model, run, etas)
        kind = "dit_model" if "shared_head" in c else "dit_model_dense"
        return Case(kind, c, tensors, body, frozen=("param.pos_embed",))
    return with_clear_choices(make)
