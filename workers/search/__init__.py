"""The search for the best lambda and zeta: Optuna over the rows of an experiment, which alone are the truth."""

import optuna

optuna.logging.set_verbosity(optuna.logging.WARNING)
