"""Settings of models, as scripts give them to moh on its command line."""


def preset(name):
    return (f"model.preset={name}",)


def number_or_list(value):
    return str(value) if isinstance(value, int) else f"[{','.join(map(str, value))}]"


def routed(shared, selected):
    """A learned router with these shared and selected heads: a number for all layers, or one for each layer or stage."""
    return ("model.moh.router=learned", f"model.moh.num_shared={number_or_list(shared)}", f"model.moh.top_k={number_or_list(selected)}")
