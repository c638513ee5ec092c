"""The review's comparison of MoH with MoA in translation. Its settings are not published; configs/translation has those that are proposed
(docs/paper.md)."""

from .table import Row, Small, Table

FULL, SMALL = "configs/translation/wmt14_en_de_{}.yaml", "configs/translation/small_{}.yaml"


def row(name, heads, bleu, form, note=""):
    return Row(name, heads, {"bleu": bleu}, FULL.format(form), Small(SMALL.format(form)), note=note)


TABLES = {
    "review_translation": Table(
        "MoH beside MoA, translation", "review", "training", "bleu", "WMT14 English to German; sizes, shares of heads and the scorer not stated", (
            row("MoA", None, 28.3, "moa"),
            row("MoH", 75, 29.0, "moh_75", note="the share of heads is not published"),
        ), data="pairs", needs="WMT14 English to German: the files that configs/translation/wmt14_en_de_base.yaml names",
        evaluation=("moh convert --from RUN --average 10 --to RUN/averaged --format moh",
                    "moh translate --checkpoint RUN/averaged --input newstest2014.en --output RUN/newstest2014.txt --beam 4 --length-penalty 0.6",
                    "scripts/bleu.sh RUN/newstest2014.txt newstest2014.de --paper"),
        small_score="smoothed cross-entropy of held-out pairs, nats a token, lower is better; not BLEU"),
}
