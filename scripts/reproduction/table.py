"""What a table of the paper is made of. The tables themselves are in image_tables.py, diffusion_tables.py, language_tables.py and
translation_tables.py.

Numbers are those of arXiv 2410.11842 (version 3) and of its authors' answers in the public review, "review" below. Rows that the paper
takes from others' publications, of models that moh does not have, are left out.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Small:
    """A row's training for a small machine: `moh train CONFIG SETTINGS...`. It takes the paper's row's share of heads, and nothing else
    of it for sure."""

    config: str
    settings: tuple = ()
    name: str = ""  # in reports and folders, in place of those of the configuration and the settings


@dataclass(frozen=True)
class Row:
    """A row of a table: the paper's numbers by column, its training at full size, and the one for a small machine."""

    name: str
    heads: float | None  # active heads in percent, as the paper prints them
    paper: dict
    config: str = ""  # empty: no configuration here trains it; `note` says why
    small: Small | None = None
    settings: tuple = ()  # of the training at full size
    note: str = ""
    base: str = ""  # the row that it is compared with; empty: the table's first
    measure: str = ""  # kind analysis: where the number is, in what `moh analyze` writes (analysis.py)
    data: str = ""  # of the small training, where the table has both
    evaluation: tuple = ()  # commands after its training at full size, if they are not the table's
    guidance: float = 1.0  # of the pictures that a diffusion model draws


@dataclass(frozen=True)
class Table:
    """`score` is the column that is compared, and `kind` says how the rows get their numbers:

    training    each row is a training, whose score is that of its last evaluation
    recovery    a dense model, continued in several ways
    analysis    trainings whose models `moh analyze` looks at
    size        `moh plan` of the models at full size
    layer       `moh bench`, of one attention layer at the paper's size
    checkpoint  `moh analyze` of a checkpoint that the user has
    """

    title: str
    source: str
    kind: str
    score: str
    setting: str  # the paper's, in words
    rows: tuple
    data: str = ""  # of the small trainings: images, text or pairs
    needs: str = ""  # the data of the full-size trainings, and how they are given
    evaluation: tuple = ()  # commands after a full-size training; RUN stands for its folder
    items: int = 0  # inputs of a training whose length is in epochs
    small_score: str = ""
    further: tuple = ()  # other columns of the paper, that the table shows beside the score
    missing: tuple = field(default=())  # parts of the table that nothing here reproduces

    def evaluation_of(self, row):
        return row.evaluation or self.evaluation

    def base_of(self, row):
        """The row to which its difference is."""
        return next((other for other in self.rows if other.name == row.base), self.rows[0])
