"""What is behind the settings of a search for λ and ζ."""

from app.db.study import Search
from app.help import sources
from app.help.help import Help, described
from app.help.sweep import PENALTY

SEARCH = described(
    Search,
    {
        "regularizer": Help(more="It is added to the loss with the λ of each trial; the baseline has none."),
        "lam_low": PENALTY["lambdas"],
        "lam_high": PENALTY["lambdas"],
        "least_size": Help(
            formula="place = sign(λ) log(|λ| / least), |λ| ≥ least",
            more="So 0.1 and 0.01 are as far apart as 10 and 1. λ itself is the better choice between −1 and 1.",
        ),
        "zeta_low": PENALTY["zetas"],
        "zeta_high": PENALTY["zetas"],
        "trials": Help(
            more="A few at random come first; then those are preferred that are like the best so far.",
            source=f"{sources.TPE} {sources.OPTUNA}",
        ),
        "at_once": Help(more="The more at once, the less each can learn from the others."),
        "objective": Help(
            more="Of both, no single best is chosen: a trial is on the front if none beats it in performance and in "
            "IsoScore★.",
            measures=("isoscore_star",),
        ),
        "prune": Help(
            more="It needs evaluations while training: the best checkpoint or a patience, in the sweep form.",
            source=sources.OPTUNA,
        ),
        "seed": Help(more="With several workers trials end in another order, and so the next ones differ."),
    },
)
